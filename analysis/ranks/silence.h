// How long a number that another process counts up has stood still.
#pragma once

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

namespace attest {

/// The time between two looks counts as at most `most`: a process that was stopped for a while does not take the
/// others, which may have been stopped, too, for silent.
class Silence {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Silence(std::chrono::milliseconds most) : most_(most) {}

  void look(std::string number, Clock::time_point now = Clock::now()) {
    if (std::exchange(number_, std::move(number)) != number_ || looked_ == Clock::time_point{})
      silent_ = Clock::duration::zero();
    else
      silent_ += std::min<Clock::duration>(now - looked_, most_);
    looked_ = now;
  }

  std::chrono::milliseconds time() const { return std::chrono::duration_cast<std::chrono::milliseconds>(silent_); }

 private:
  const std::chrono::milliseconds most_;
  std::string number_;
  Clock::time_point looked_{};
  Clock::duration silent_{};
};

}  // namespace attest
