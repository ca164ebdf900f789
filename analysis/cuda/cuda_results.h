// The results of a layer on their way: one float array on the device, laid out like the arrays of LayerResultsBuilder.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "analysis/layer_study.h"
#include "analysis/metrics/device_metrics.h"
#include "kernels/device/device_memory.h"

namespace attest {

class CudaResults {
 public:
  /// Lays out the arrays of a layer, all undefined yet. Throws std::logic_error for a metric that no kernel computes.
  void begin(const StudyOptions& options, const AttentionLayer& layer, cudaStream_t stream);

  bool dense(std::size_t selector) const { return results_.selectors[selector].dense; }
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
  float* find(const std::vector<MetricValues>& metrics, const std::vector<std::int64_t>& offsets, std::string_view name) const;

  LayerResults results_;
  std::vector<std::int64_t> score_offsets_;
  std::vector<std::vector<std::int64_t>> offsets_;  // [selector][metric]
  std::vector<int> num_settings_;
  std::vector<std::int64_t> product_offsets_;       // [selector]
  std::int64_t count_ = 0;
  DeviceBuffer device_, products_;
  PageLockedBuffer host_;
};

}  // namespace attest
