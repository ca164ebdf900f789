// When a process that waits says for whom.
#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace attest {

/// The first notice is due when a process has waited for kFirst, others at intervals of kBetween.
class Patience {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kFirst{10}, kBetween{20};

  /// For whom this process waits, by name, if it is time to say so; else "". The wait begins with the first call.
  /// `holder` gives the name, or "" if nobody is found.
  template <class Holder>
  std::string whom_to_name(Holder holder, Clock::time_point now = Clock::now()) {
    if (!due_) due_ = now + kFirst;
    if (now < *due_) return {};
    std::string name = holder();
    if (!name.empty()) due_ = now + kBetween;
    return name;
  }
  /// The wait is over.
  void reset() { due_.reset(); }

 private:
  std::optional<Clock::time_point> due_;
};

}  // namespace attest
