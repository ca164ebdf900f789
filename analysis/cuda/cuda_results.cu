#include <algorithm>
#include <stdexcept>

#include "analysis/cuda/cuda_results.h"
#include "kernels/device/cuda_check.h"

namespace attest {
namespace {

/// What the kernels of device_metrics.h and rank/row_ranks.h compute.
constexpr std::string_view kComputed[] = {"lse",
                                          "top1_top2_gap",
                                          "score_std",
                                          "entropy",
                                          "span_mass",
                                          "recall",
                                          "output_error",
                                          "lse_error",
                                          "mass_recall",
                                          "keep_ratio",
                                          "salient_hit_rate",
                                          "salient_hit_rate_fixed",
                                          "salient_ratio",
                                          "missed_salient_mass",
                                          "dropped_gap",
                                          "span_keep",
                                          "span_mass_kept",
                                          "spearman",
                                          "pearson",
                                          "spearman_block16",
                                          "spearman_block128",
                                          "scan_error_mean",
                                          "scan_error_std",
                                          "scan_error_max",
                                          "scan_error_tail",
                                          "scan_error_lower_tail"};

void check_computed(std::string_view metric) {
  if (std::ranges::find(kComputed, metric) == std::ranges::end(kComputed))
    throw std::logic_error("metric '" + std::string(metric) +
                           "' has no CUDA kernel: add one to analysis/metrics/metrics_cuda.h");
}

}  // namespace

void CudaResults::begin(const StudyOptions& options, const AttentionLayer& layer, cudaStream_t stream) {
  for (const ScoreMetric& metric : score_metrics()) check_computed(metric.name);
  for (const SelectorMetric& metric : selector_metrics()) check_computed(metric.name);
  layout_ = LayerResultsLayout(options, layer);
  product_offsets_.clear();
  std::size_t products = 0;
  for (const SelectorLayout& selector : layout_.selectors) {
    product_offsets_.push_back(products);
    products += static_cast<std::size_t>(layer.num_queries() * layer.shape.num_query_heads) * selector.num_settings;
  }
  device_.reserve(layout_.num_cells * sizeof(float));
  products_.reserve(products * sizeof(OutputProducts));
  host_.reserve(layout_.num_cells * sizeof(float));
  fill_undefined(reinterpret_cast<float*>(device_.data()), static_cast<std::int64_t>(layout_.num_cells), stream);
}

float* CudaResults::find(const std::vector<ResultArray>& arrays, std::string_view name) const {
  const ResultArray* array = find_array(arrays, name);
  return array == nullptr ? nullptr : reinterpret_cast<float*>(device_.data()) + array->begin;
}

float* CudaResults::array(std::size_t selector, std::string_view metric) const {
  return find(layout_.selectors[selector].arrays, metric);
}

ScoreMetricArrays CudaResults::scores() const {
  const auto of = [&](std::string_view name) { return find(layout_.scores, name); };
  return {of("lse"), of("top1_top2_gap"), of("score_std"), of("entropy"), of("span_mass")};
}

KeptSetArrays CudaResults::kept_set(std::size_t selector) const {
  const auto of = [&](std::string_view name) { return array(selector, name); };
  return {of("mass_recall"),   of("keep_ratio"),          of("salient_hit_rate"), of("salient_hit_rate_fixed"),
          of("salient_ratio"), of("missed_salient_mass"), of("dropped_gap"),      of("span_keep"),
          of("span_mass_kept")};
}

OutputFidelityArrays CudaResults::output_fidelity(std::size_t selector) const {
  return {array(selector, "recall"), array(selector, "output_error"), array(selector, "lse_error"),
          reinterpret_cast<OutputProducts*>(products_.data()) + product_offsets_[selector]};
}

EstimateArrays CudaResults::estimate(std::size_t selector) const {
  const auto of = [&](std::string_view name) { return array(selector, name); };
  return {of("pearson"),        of("scan_error_mean"), of("scan_error_std"),
          of("scan_error_max"), of("scan_error_tail"), of("scan_error_lower_tail")};
}

void CudaResults::enqueue_finish(int num_queries, int num_heads, cudaStream_t stream) {
  for (std::size_t s = 0; s < layout_.selectors.size(); ++s)
    recall_layer(output_fidelity(s).products, num_queries, num_heads,
                 static_cast<int>(layout_.selectors[s].num_settings), array(s, "recall_layer"), stream);
  ATTEST_CUDA(
      cudaMemcpyAsync(host_.data(), device_.data(), layout_.num_cells * sizeof(float), cudaMemcpyDeviceToHost, stream));
  // Memory that the system has yet to give is touched while the device computes.
  results_ = layout_.undefined();
}

LayerResults CudaResults::take() {
  const float* from = reinterpret_cast<const float*>(host_.data());
  const auto fill = [&](std::vector<MetricValues>& metrics) {
    for (MetricValues& metric : metrics) {
      std::copy_n(from, metric.values.size(), metric.values.begin());
      from += metric.values.size();
    }
  };
  fill(results_.scores);
  for (SelectorLayerResults& selector : results_.selectors) fill(selector.metrics);
  return std::move(results_);
}

}  // namespace attest
