// The results of a layer on their way: all arrays of its layout in one on the device.
#pragma once

#include <span>
#include <vector>

#include "analysis/layer/layer_results_layout.h"
#include "analysis/metrics/rows_cuda.h"
#include "kernels/device/buffers.h"

namespace attest {

class CudaResults {
 public:
  /// Lays out the arrays of a layer, all undefined yet.
  void begin(const Study& study, std::span<const Metric> metrics, const AttentionLayer& layer, cudaStream_t stream);

  const LayerResultsLayout& layout() const { return layout_; }
  CudaCells score_cells() const;
  CudaCells selector_cells(std::size_t selector) const;

  /// Metrics of the whole layer, and everything on its way back.
  void enqueue_finish(int num_queries, int num_heads, cudaStream_t stream);
  /// When what was enqueued is done.
  LayerResults take();

 private:
  float* cells(const ResultArray& array) const;

  LayerResultsLayout layout_;
  LayerResults results_;
  std::vector<std::vector<std::size_t>> sums_offsets_;  // [selector][array]: of layer metrics in sums_
  DeviceBuffer device_, sums_;
  PageLockedBuffer host_;
};

}  // namespace attest
