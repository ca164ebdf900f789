// attest bench study: the study's speed beside an eager LibTorch implementation of the same, results compared first.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analysis/cuda/cuda_bandwidth.h"
#include "analysis/layer/device.h"
#include "analysis/layer/layer_study.h"
#include "dumps/format/dump_reader.h"

namespace attest {

struct StudyBenchOptions {
  Device device;
  int threads = 1;
  int repeats = 5;        ///< timed runs of ours, after one that warms up
  int peer_repeats = 1;   ///< 0: no peer
  int sweep_points = 16;  ///< settings per selector of the sweep
  std::vector<std::string> selectors{"exact", "ffd", "quest", "kivi", "twilight", "streaming_llm"};
};

/// How far two implementations' cells are apart.
struct Agreement {
  std::int64_t cells = 0;
  std::int64_t apart = 0;  ///< by more than kAgreementTolerance: kept sets that a rounding flipped
  std::string worst;       ///< metric with the most cells apart
};
inline constexpr double kAgreementTolerance = 2e-3;  ///< of max(1, |value|): float32 against double over 32K tokens
inline constexpr double kMostCellsApart = 0.01;

/// One layer in memory, one set of grids.
struct LayerTiming {
  std::string name;             ///< "paper settings", "sweep, 16 points"
  int settings = 0;             ///< over all selectors
  std::vector<double> seconds;  ///< of ours, each repeat
  std::vector<double> peer_seconds;
  std::optional<Agreement> agreement;
  std::vector<StageTime> stages;  ///< of a GPU, mean of all runs
};

/// The whole dump through attest run's path.
struct DumpTiming {
  std::size_t layers = 0;
  double read_seconds = 0;           ///< reading the file from end to end, one thread, page cache warm
  double parallel_read_seconds = 0;  ///< the same by all threads
  double study_seconds = 0;          ///< paper settings, partial results included
  std::int64_t file_bytes = 0;
  std::int64_t memory_after_first = 0;  ///< peak resident bytes once the first layer is finished
  std::int64_t memory_at_end = 0;       ///< and at the end
  std::vector<StageTime> stages;        ///< of a GPU
  CudaBandwidth bandwidth;              ///< what the GPU's stages are measured by; 0 on the CPU
};

struct StudyBenchReport {
  std::string device;
  AttentionShape shape;
  std::int64_t num_tokens = 0, num_queries = 0;
  std::vector<LayerTiming> timings;
  DumpTiming dump;
};

/// Times the first layer of the first sample, then the study of all of `path`. Throws Error when ours and the peer's
/// results do not agree: then no time is worth reporting.
StudyBenchReport bench_study(const std::string& path, const StudyBenchOptions& options);

double median(std::vector<double> values);

}  // namespace attest
