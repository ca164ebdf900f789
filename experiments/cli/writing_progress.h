// Progress of `attest synth` while it writes a dump, and how Ctrl-C ends it.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <string>

#include "dumps/base/error.h"
#include "experiments/cli/interrupt.h"
#include "experiments/cli/progress.h"

namespace attest {

/// Call it with the bytes done and the bytes in all. Throws Interrupted after Ctrl-C; the writer then leaves no file.
class WritingProgress {
 public:
  WritingProgress(const std::string& path, bool quiet) : path_(path), progress_("MB", quiet) {}

  void operator()(std::int64_t done, std::int64_t total) {
    if (interrupt_.flag())
      throw Interrupted(
          fmt::format("{}: interrupted, nothing was written; run the command again to start over", path_));
    constexpr std::int64_t megabyte = 1'000'000;
    progress_.show(static_cast<std::size_t>(done / megabyte), static_cast<std::size_t>(total / megabyte), 0);
  }

  void end() { progress_.end(); }

  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  const std::string& path_;
  InterruptFlag interrupt_;
  Progress progress_;
  Clock::time_point start_ = Clock::now();
};

}  // namespace attest
