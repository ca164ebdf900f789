// Progress of `attest synth` while it writes a dump.
#pragma once

#include <chrono>
#include <cstdint>

#include "experiments/cli/progress.h"

namespace attest {

/// Call it with the bytes done and the bytes in all.
class WritingProgress {
 public:
  explicit WritingProgress(bool quiet) : progress_("MB", quiet) {}

  void operator()(std::int64_t done, std::int64_t total) {
    constexpr std::int64_t megabyte = 1'000'000;
    if (total < megabyte) return;
    progress_.show(static_cast<std::size_t>(done / megabyte), static_cast<std::size_t>(total / megabyte), 0);
  }

  void end() { progress_.end(); }

  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  Progress progress_;
  Clock::time_point start_ = Clock::now();
};

}  // namespace attest
