// Locks a GPU in the folder of the study, and watches whether the process that has it goes on.
#include "analysis/run/device_lock.h"

#include <fmt/core.h>

#include <utility>

namespace attest {
namespace {

constexpr std::chrono::milliseconds kBetween{200};  // asking the folder

}  // namespace

DeviceLock::DeviceLock(PartialResults& partial, const std::string& identity, std::string device, Notice notice)
    : partial_(partial),
      name_("gpu-" + identity),
      device_(std::move(device)),
      notice_(std::move(notice)),
      free_for_all_(identity.empty()) {}

DeviceLock::~DeviceLock() {
  if (held_) partial_.unlock_device(name_);
}

bool DeviceLock::may_compute(Clock::time_point now) {
  if (held_ || free_for_all_) return true;
  if (now - asked_ < kBetween) return false;
  if (asked_ == Clock::time_point()) finished_since_ = now;
  asked_ = now;
  if (partial_.in_place())
    held_ = partial_.try_lock_device(name_);
  else
    free_for_all_ = true;  // another process has finished the study
  if (held_ || free_for_all_) return true;
  if (holder_hangs(now)) {
    free_for_all_ = true;
    tell(fmt::format("no layer was finished for {} s: this process computes on {} beside {}", kHung.count(), device_,
                     told_of_.empty() ? "another process" : told_of_));
    return true;
  }
  tell_for_whom();
  return false;
}

bool DeviceLock::holder_hangs(Clock::time_point now) {
  const std::size_t finished = PartialResults::unit_files(partial_.folder()).size();
  if (finished != finished_) finished_since_ = now;
  finished_ = finished;
  return now - finished_since_ >= kHung;
}

void DeviceLock::tell(const std::string& sentence) const {
  if (notice_) notice_(sentence);
}

void DeviceLock::tell_for_whom() {
  const std::string holder = partial_.holder_of_device(name_);
  if (holder.empty() || holder == told_of_) return;
  told_of_ = holder;
  tell(fmt::format("{} computes this study on {}: this process stands by, and goes on there if that one ends", holder,
                   device_));
}

}  // namespace attest
