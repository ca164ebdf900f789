// attest bench study: speed of the study against an eager LibTorch implementation. Their results are compared first.
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
  int repeats = 5;        ///< timed runs of attest, after one warm-up run
  int peer_repeats = 1;   ///< timed runs of the LibTorch peer; 0: no peer
  int sweep_points = 16;  ///< settings per selector of the sweep
  std::vector<std::string> selectors{"exact", "ffd", "quest", "kivi", "twilight", "streaming_llm"};
};

/// How far the cells of two implementations differ.
struct Agreement {
  std::int64_t cells = 0;
  std::int64_t differing = 0;  ///< differ by more than kAgreementTolerance: rounding changed the kept set
  std::string worst;           ///< metric with the most cells differing
};
/// Relative to max(1, |value|): float32 against double over 32K tokens.
inline constexpr double kAgreementTolerance = 2e-3;
inline constexpr double kMaxDifferingShare = 0.01;

/// One layer in memory, one set of grids.
struct LayerTiming {
  std::string name;             ///< "paper settings", "sweep, 16 points"
  int settings = 0;             ///< over all selectors
  std::vector<double> seconds;  ///< of attest, one per repeat
  std::vector<double> peer_seconds;
  std::optional<Agreement> agreement;
  std::vector<StageTime> stages;  ///< of a GPU, means over all runs
};

/// The whole dump, studied as `attest run` does.
struct DumpTiming {
  std::string device;  ///< all GPUs
  std::size_t layers = 0;
  double read_seconds = 0;           ///< reading the file from end to end, one thread, page cache warm
  double parallel_read_seconds = 0;  ///< the same by all threads
  double study_seconds = 0;          ///< paper settings, partial results included
  std::int64_t file_bytes = 0;
  std::int64_t memory_after_first = 0;  ///< peak resident bytes once the first layer is finished
  std::int64_t memory_at_end = 0;       ///< and at the end
  std::vector<StageTime> stages;        ///< of a GPU
  CudaBandwidth bandwidth;              ///< the GPU's stages are compared with it; 0 on the CPU
};

struct StudyBenchReport {
  std::string device;
  AttentionShape shape;
  std::int64_t num_tokens = 0, num_queries = 0;
  std::vector<LayerTiming> timings;
  DumpTiming dump;
};

/// Times the first layer of the first sample, then the study of all of `path`. Throws Error when attest and the peer
/// disagree: the times would then be meaningless.
/// `folder` is made for the units of the study, and removed.
StudyBenchReport bench_study(const std::string& path, const std::string& folder, const StudyBenchOptions& options);

}  // namespace attest
