// Layout of a layer's result arrays.
#include "analysis/layer_results_builder.h"

#include <limits>

#include "analysis/metrics/output_fidelity.h"

namespace attest {
namespace {
constexpr float kUndefined = std::numeric_limits<float>::quiet_NaN();
}

LayerResultsBuilder::LayerResultsBuilder(const StudyOptions& options, const AttentionLayer& layer)
    : num_lambdas_(options.lambdas.size()), num_queries_(layer.num_queries()), num_heads_(layer.shape.num_query_heads) {
  const bool has_spans = !layer.spans.empty();
  const auto rows = static_cast<std::size_t>(num_queries_ * num_heads_);
  results_.layer = layer.layer;
  for (const ScoreMetric& metric : score_metrics())
    if (!metric.needs_spans || has_spans)
      results_.scores.push_back({std::string(metric.name), MetricAxes::query_head, std::vector<float>(rows, kUndefined)});
  results_.selectors.resize(options.selectors.size());
  plans_.resize(options.selectors.size());
  for (std::size_t s = 0; s < options.selectors.size(); ++s) {
    const Selector& selector = *options.selectors[s].selector;
    num_settings_.push_back(options.selectors[s].grid.size());
    results_.selectors[s].dense = layer.layer < selector.dense_layers();
    SelectorMetricPlan& plan = plans_[s];
    for (const SelectorMetric& metric : selector_metrics()) {
      if ((metric.needs_estimate && !selector.has_estimate()) || (metric.needs_spans && !has_spans)) continue;
      plan.common.push_back(&metric);
      add(s, metric.name.data(), metric.axes);
    }
    auto& metrics = results_.selectors[s].metrics;
    plan.io_ratio = metrics.size();
    add(s, "io_ratio", MetricAxes::query_head_setting);
    plan.recall_layer = metrics.size();
    add(s, "recall_layer", MetricAxes::query_setting);
    plan.first_row_metric = metrics.size();
    for (const std::string& name : selector.row_metrics()) add(s, name.c_str(), MetricAxes::query_head);
    plan.first_setting_metric = metrics.size();
    for (const std::string& name : selector.setting_metrics()) add(s, name.c_str(), MetricAxes::query_head_setting);
    products_.emplace_back(rows * num_settings_[s]);
  }
}

std::size_t LayerResultsBuilder::per_cell(std::size_t selector, MetricAxes axes) const {
  switch (axes) {
    case MetricAxes::query_head: return 1;
    case MetricAxes::query_head_lambda: return num_lambdas_;
    case MetricAxes::query_head_setting:
    case MetricAxes::query_setting: break;
  }
  return num_settings_[selector];
}

void LayerResultsBuilder::add(std::size_t selector, const char* name, MetricAxes axes) {
  const std::size_t rows = static_cast<std::size_t>(num_queries_) *
                           (axes == MetricAxes::query_setting ? 1 : static_cast<std::size_t>(num_heads_));
  results_.selectors[selector].metrics.push_back(
      {name, axes, std::vector<float>(rows * per_cell(selector, axes), kUndefined)});
}

std::span<float> LayerResultsBuilder::cells(std::size_t selector, std::size_t metric, std::int64_t query, int head) {
  MetricValues& array = results_.selectors[selector].metrics[metric];
  const std::size_t count = per_cell(selector, array.axes);
  return {array.values.data() + static_cast<std::size_t>(query * num_heads_ + head) * count, count};
}

float& LayerResultsBuilder::score_cell(std::size_t metric, std::int64_t query, int head) {
  return results_.scores[metric].values[static_cast<std::size_t>(query * num_heads_ + head)];
}

std::span<LayerResultsBuilder::OutputProducts> LayerResultsBuilder::products(std::size_t selector, std::int64_t query, int head) {
  const std::size_t count = num_settings_[selector];
  return {products_[selector].data() + static_cast<std::size_t>(query * num_heads_ + head) * count, count};
}

LayerResults LayerResultsBuilder::finish() {
  for (std::size_t s = 0; s < plans_.size(); ++s) {
    std::vector<float>& recall_layer = results_.selectors[s].metrics[plans_[s].recall_layer].values;
    for (std::int64_t n = 0; n < num_queries_; ++n)
      for (std::size_t i = 0; i < num_settings_[s]; ++i) {
        OutputProducts sum;
        for (int h = 0; h < num_heads_; ++h) {
          const OutputProducts& head = products(s, n, h)[i];
          sum.dot += head.dot;
          sum.square += head.square;
          sum.exact_square += head.exact_square;
        }
        recall_layer[static_cast<std::size_t>(n) * num_settings_[s] + i] =
            static_cast<float>(cosine(sum.dot, sum.square, sum.exact_square));
      }
  }
  return std::move(results_);
}

}  // namespace attest
