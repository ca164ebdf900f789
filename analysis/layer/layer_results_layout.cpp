// Layout of a layer's result arrays.
#include "analysis/layer/layer_results_layout.h"

#include <algorithm>
#include <limits>

namespace attest {

LayerResultsLayout::LayerResultsLayout(const StudyOptions& options, const AttentionLayer& attention)
    : layer(attention.layer) {
  const bool has_spans = !attention.spans.empty();
  const auto queries = static_cast<std::size_t>(attention.num_queries()),
             heads = static_cast<std::size_t>(attention.shape.num_query_heads);
  const auto add = [&](std::vector<ResultArray>& arrays, std::string_view name, MetricAxes axes, std::size_t per_row) {
    const std::size_t size = queries * (axes == MetricAxes::query_setting ? 1 : heads) * per_row;
    arrays.push_back({std::string(name), axes, per_row, size, num_cells});
    num_cells += size;
  };
  for (const ScoreMetric& metric : score_metrics())
    if (!metric.needs_spans || has_spans) add(scores, metric.name, MetricAxes::query_head, 1);
  for (const StudySelector& study : options.selectors) {
    const Selector& selector = *study.selector;
    SelectorLayout& out = selectors.emplace_back();
    out.dense = layer < selector.dense_layers();
    out.num_settings = study.grid.size();
    for (const SelectorMetric& metric : selector_metrics()) {
      if ((metric.needs_estimate && !selector.has_estimate()) || (metric.needs_spans && !has_spans)) continue;
      out.common.push_back(&metric);
      const bool per_lambda = metric.axes == MetricAxes::query_head_lambda,
                 per_setting = metric.axes == MetricAxes::query_head_setting;
      add(out.arrays, metric.name, metric.axes,
          per_lambda    ? options.lambdas.size()
          : per_setting ? out.num_settings
                        : 1);
    }
    out.io_ratio = out.arrays.size();
    add(out.arrays, "io_ratio", MetricAxes::query_head_setting, out.num_settings);
    out.recall_layer = out.arrays.size();
    add(out.arrays, "recall_layer", MetricAxes::query_setting, out.num_settings);
    out.first_row_metric = out.arrays.size();
    for (const std::string& name : selector.row_metrics()) add(out.arrays, name, MetricAxes::query_head, 1);
    out.first_setting_metric = out.arrays.size();
    for (const std::string& name : selector.setting_metrics())
      add(out.arrays, name, MetricAxes::query_head_setting, out.num_settings);
  }
}

LayerResults LayerResultsLayout::undefined() const {
  const auto all = [](const std::vector<ResultArray>& arrays) {
    std::vector<MetricValues> out;
    for (const ResultArray& array : arrays)
      out.push_back({array.name, array.axes, std::vector<float>(array.size, std::numeric_limits<float>::quiet_NaN())});
    return out;
  };
  LayerResults out;
  out.layer = layer;
  out.scores = all(scores);
  for (const SelectorLayout& selector : selectors) out.selectors.push_back({selector.dense, all(selector.arrays)});
  return out;
}

const ResultArray* find_array(const std::vector<ResultArray>& arrays, std::string_view name) {
  const auto found = std::ranges::find(arrays, name, &ResultArray::name);
  return found == arrays.end() ? nullptr : &*found;
}

}  // namespace attest
