// Enqueues the study of a chunk of rows: exact attention, then every selector with its metrics.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "analysis/cuda/cuda_layer_plan.h"
#include "analysis/cuda/cuda_results.h"
#include "analysis/cuda/stage_clock.h"
#include "analysis/layer/layer_study.h"
#include "kernels/device/uploads.h"
#include "kernels/selectors/cuda_selector.h"

namespace attest {

/// What lies on the device of a layer: q of all heads, k and v of some KV heads.
struct DeviceInputs {
  const void *q = nullptr, *k = nullptr, *v = nullptr;
  KvHeadRange heads;
};

/// One layer's work on one stream; never waits for the device.
class CudaChunkStudy {
 public:
  struct Setup {
    const StudyOptions& options;
    std::span<const std::unique_ptr<CudaSelector>> selectors;  ///< of options.selectors
    const AttentionLayer& layer;
    DeviceInputs inputs;
    DeviceArena& arena;
    Uploads& uploads;
    CudaResults& results;
    StageClock& clock;
    cudaStream_t stream;
  };
  explicit CudaChunkStudy(const Setup& setup);

  /// Throws DeviceMemoryFull where the arena cannot hold what the groups need; they may be given again in smaller runs.
  void enqueue(std::span<const QueryGroup> groups);

 private:
  struct ExactSide;
  struct Ranks;

  CudaChunk make_chunk(const RowTables& tables);
  ExactSide attend_exactly(CudaChunk& chunk);
  Ranks rank_all(const CudaChunk& chunk);
  Ranks rank_covered(const CudaChunk& chunk, const RowCounts& covered);
  void run_selector(const CudaChunk& chunk, const ExactSide& exact, std::size_t s, std::span<const Setting> grid,
                    std::size_t first_setting);
  SettingPlaces places(const CudaChunk& chunk, std::span<const AscendingGrid> grids, std::size_t s,
                       std::size_t first_setting);
  void measure_output(const CudaChunk& chunk, const ExactSide& exact, const CudaSelection& selection, std::size_t s,
                      const SettingPlaces& at);
  void measure_kept_set(const CudaChunk& chunk, const ExactSide& exact, const CudaSelection& selection, std::size_t s,
                        std::span<const AscendingGrid> grids, const SettingPlaces& at);
  void measure_estimate(const CudaChunk& chunk, const ExactSide& exact, const CudaSelection& selection, std::size_t s);

  const Setup setup_;
};

}  // namespace attest
