// What is timed: device, repeats, selectors and their settings.
#pragma once

#include <string>
#include <vector>

#include "analysis/layer/device.h"
#include "analysis/study/study.h"

namespace attest {

struct StudyBenchOptions {
  Device device;
  int threads = 1;
  int repeats = 5;        ///< timed runs of attest, after one warm-up run
  int peer_repeats = 1;   ///< timed runs of the LibTorch peer; 0: no peer
  int sweep_points = 16;  ///< settings per selector of the sweep
  std::vector<std::string> selectors{"exact", "ffd", "quest", "kivi", "twilight", "streaming_llm"};
};

/// Selectors, NAME or NAME:option=value,..., at the settings of their papers, or, if `sweep_points` is not 0, at so
/// many each. Throws UsageError.
Study timed_study(const std::vector<std::string>& selectors, int sweep_points);

}  // namespace attest
