// Enqueues the study of a chunk of rows: exact attention, then every selector with its metrics.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "analysis/cuda/cuda_layer_chunk.h"
#include "analysis/cuda/cuda_results.h"
#include "analysis/cuda/cuda_selector_streams.h"
#include "analysis/metrics/rank_correlation_cuda.h"
#include "analysis/metrics/rows_cuda.h"

namespace attest {

/// Enqueues the work of one layer: exact attention on one stream, selectors on the same or on streams of their own.
/// Never waits for the device.
class CudaChunkStudy {
 public:
  struct Setup {
    const Study& study;
    std::span<const std::shared_ptr<const CudaSelector>> selectors;  ///< one per element of study.selectors
    const AttentionLayer& layer;
    DeviceInputs inputs;
    Uploads& uploads;
    CudaResults& results;
    const std::vector<int2>& spans;           ///< disjoint_spans() of the layer
    const std::vector<double>& head_weights;  ///< of the layer; empty: it has none
    StageClock& clock;
    cudaStream_t stream;
  };
  explicit CudaChunkStudy(const Setup& setup);

  /// `arena`: of exact attention and, unless they have streams of their own, of the selectors. Who uses it next waits
  /// for these streams (CudaSelectorStreams::join()), also after an exception.
  /// A selector is dense for all KV heads of the groups or for none (equally_dense()). Throws DeviceMemoryFull if the
  /// groups need more memory than an arena has. The caller may retry with fewer groups.
  void enqueue(std::span<const QueryGroup> groups, DeviceArena& arena, const CudaSelectorStreams* streams);

 private:
  /// Computes scores and outputs of exact attention, and the metrics of the scores.
  CudaExactRows attend_exactly(CudaChunk& chunk, std::span<const QueryGroup> groups);
  /// Evaluates selector s at the settings of `grid`. grid[i] is setting first_setting + i in the results.
  void run_selector(const CudaExactRows& exact, std::span<const QueryGroup> groups, std::size_t s,
                    std::span<const Setting> grid, std::size_t first_setting);
  bool is_dense(std::span<const QueryGroup> groups, std::size_t s) const;
  SettingOffsets setting_offsets(const CudaChunk& chunk, std::span<const AscendingGrid> grids, std::size_t s,
                                 std::size_t first_setting);
  DeviceOutputs outputs(const CudaExactRows& exact, const CudaSelection& selection, int num_settings);

  const Setup setup_;
};

}  // namespace attest
