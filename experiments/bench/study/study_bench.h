// attest bench study: speed of the study against an eager LibTorch implementation. Their results are compared first.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dumps/attention_layer.h"
#include "experiments/bench/study/agreement.h"
#include "experiments/bench/study/bench_settings.h"
#include "experiments/bench/study/dump_timing.h"

namespace attest {

/// One layer in memory, one set of grids.
struct LayerTiming {
  std::string name;             ///< "paper settings", "sweep, 16 points"
  int settings = 0;             ///< over all selectors
  std::vector<double> seconds;  ///< of attest, one per repeat
  std::vector<double> peer_seconds;
  std::optional<Agreement> agreement;
  std::vector<StageTime> stages;  ///< of a GPU, means over all runs
};

struct StudyBenchReport {
  std::string device;
  AttentionShape shape;
  std::int64_t num_tokens = 0, num_queries = 0;
  std::vector<LayerTiming> timings;
  DumpTiming dump;
};

/// Times the first layer of the first sample, then the study of all of `path`. Throws Error when attest and the peer
/// disagree: the times would then be meaningless. `folder` is made for the units of the study, and removed.
StudyBenchReport bench_study(const std::string& path, const std::string& folder, const StudyBenchOptions& options);

}  // namespace attest
