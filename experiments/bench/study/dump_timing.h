// Times the study of a whole dump.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "analysis/cuda/cuda_bandwidth.h"
#include "experiments/bench/study/bench_settings.h"
#include "kernels/device/stage_time.h"

namespace attest {

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

  /// Time that GPUs compute, copies from the host left out; 0 on the CPU.
  double gpu_busy_seconds() const;
};

/// Studies the last `queries` queries of every sample (0: all) at the settings of the papers. `folder` is made for the
/// units of the study, and removed. Only times of the study are filled in.
DumpTiming time_study(const std::string& path, const std::string& folder, const StudyBenchOptions& options,
                      std::int64_t queries = 0);

/// As time_study(), and also measures the times to read the file and the bandwidth of the GPU.
DumpTiming time_dump(const std::string& path, const std::string& folder, const StudyBenchOptions& options);

}  // namespace attest
