// The results of a layer on their way: all arrays of its layout in one on the device.
#pragma once

#include <string_view>
#include <vector>

#include "analysis/layer/layer_results_layout.h"
#include "analysis/metrics/metrics_cuda.h"
#include "kernels/device/buffers.h"

namespace attest {

class CudaResults {
 public:
  /// Lays out the arrays of a layer, all undefined yet. Throws std::logic_error for a metric that no kernel computes.
  void begin(const StudyOptions& options, const AttentionLayer& layer, cudaStream_t stream);

  bool dense(std::size_t selector) const { return layout_.selectors[selector].dense; }
  ScoreMetricArrays scores() const;
  KeptSetArrays kept_set(std::size_t selector) const;
  OutputFidelityArrays output_fidelity(std::size_t selector) const;
  EstimateArrays estimate(std::size_t selector) const;
  /// Of any metric by name; null if the layer does not have it.
  float* array(std::size_t selector, std::string_view metric) const;

  /// recall_layer of all selectors, and everything on its way back.
  void enqueue_finish(int num_queries, int num_heads, cudaStream_t stream);
  /// When what was enqueued is done.
  LayerResults take();

 private:
  float* find(const std::vector<ResultArray>& arrays, std::string_view name) const;

  LayerResultsLayout layout_;
  LayerResults results_;
  std::vector<std::size_t> product_offsets_;  // [selector]
  DeviceBuffer device_, products_;
  PageLockedBuffer host_;
};

}  // namespace attest
