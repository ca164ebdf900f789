// The right to compute on a GPU, which processes of one study that have it in common give to one of them.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>

#include "analysis/results/partial_results.h"

namespace attest {

/// Two processes take longer on a GPU, which switches between them, than one. So one computes; the others stand by,
/// take over what it finishes, and get the right if it ends or dies. A holder that lives but finishes nothing for kHung
/// keeps nobody waiting: then this process computes beside it. Used by one thread.
class DeviceLock {
 public:
  using Clock = std::chrono::steady_clock;
  using Notice = std::function<void(const std::string&)>;
  static constexpr std::chrono::seconds kHung{60};

  /// `identity` of LayerStudy: empty for a device that is not locked. `device`: in words. `partial` must outlive this
  /// object. `notice` is told for whom this process stands by, and that it computes beside a holder that hangs.
  DeviceLock(PartialResults& partial, const std::string& identity, std::string device, Notice notice);
  /// Gives the right back.
  ~DeviceLock();
  DeviceLock(const DeviceLock&) = delete;
  DeviceLock& operator=(const DeviceLock&) = delete;

  /// Whether the caller may compute on the device; true from then on. Asks the folder a few times a second.
  bool may_compute(Clock::time_point now = Clock::now());

 private:
  bool holder_hangs(Clock::time_point now);
  void tell_for_whom();
  void tell(const std::string& sentence) const;

  PartialResults& partial_;
  const std::string name_;    ///< of the lock
  const std::string device_;  ///< in words
  const Notice notice_;
  bool held_ = false, free_for_all_ = false;
  Clock::time_point asked_{}, finished_since_{};
  std::size_t finished_ = 0;  ///< units that had a file
  std::string told_of_;       ///< the holder that was named
};

}  // namespace attest
