// Determines which arrays a layer's results have, their sizes and offsets.
#include "analysis/layer/layer_results_layout.h"

#include <algorithm>
#include <limits>

namespace attest {
namespace {

std::size_t values_per_row(MetricAxes axes, std::size_t num_settings, std::size_t num_lambdas) {
  switch (axes) {
    case MetricAxes::query_head_setting:
    case MetricAxes::query_setting:
      return num_settings;
    case MetricAxes::query_head_lambda:
      return num_lambdas;
    case MetricAxes::query_head:
      break;
  }
  return 1;
}

}  // namespace

LayerResultsLayout::LayerResultsLayout(const Study& study, std::span<const Metric> metrics,
                                       const AttentionLayer& attention)
    : layer(attention.layer) {
  const auto queries = static_cast<std::size_t>(attention.num_queries()),
             heads = static_cast<std::size_t>(attention.shape.num_query_heads);
  const auto add = [&](std::vector<ResultArray>& arrays, const MetricInfo& info, const Metric* metric,
                       std::size_t num_settings) {
    const std::size_t per_row = values_per_row(info.axes, num_settings, study.lambdas.size());
    const std::size_t size = queries * (info.axes == MetricAxes::query_setting ? 1 : heads) * per_row;
    arrays.push_back({info, metric, per_row, size, num_cells});
    num_cells += size;
  };
  const auto layer_has = [&](const MetricNeeds& needs) {
    return (!needs.spans || !attention.spans.empty()) && (!needs.sinks || !attention.sinks.empty());
  };
  const auto selector_has = [](const MetricNeeds& needs, const Selector& selector) {
    return (!needs.estimate || selector.has_estimate()) && (!needs.scores || selector.estimates_scores());
  };
  for (const Metric& metric : metrics)
    if (metric.of_scores() && layer_has(metric.needs)) add(scores, metric.info, &metric, 0);
  for (const StudySelector& chosen : study.selectors) {
    SelectorLayout& out = selectors.emplace_back();
    for (int head = 0; head < attention.shape.num_kv_heads; ++head)
      out.dense_heads.push_back(chosen.selector->is_dense(layer, head));
    out.dense = std::ranges::count(out.dense_heads, false) == 0;
    out.num_settings = chosen.grid.size();
    for (const Metric& metric : metrics)
      if (!metric.of_scores() && layer_has(metric.needs) && selector_has(metric.needs, *chosen.selector))
        add(out.arrays, metric.info, &metric, out.num_settings);
    out.first_own = out.arrays.size();
    for (const MetricInfo& own : chosen.selector->own_metrics()) add(out.arrays, own, nullptr, out.num_settings);
  }
}

LayerResults LayerResultsLayout::undefined() const {
  const auto all = [](const std::vector<ResultArray>& arrays) {
    std::vector<MetricValues> out;
    for (const ResultArray& array : arrays)
      out.push_back({std::string(array.info.name), array.info.axes,
                     std::vector<float>(array.size, std::numeric_limits<float>::quiet_NaN())});
    return out;
  };
  LayerResults out;
  out.layer = layer;
  out.scores = all(scores);
  for (const SelectorLayout& selector : selectors) out.selectors.push_back({selector.dense, all(selector.arrays)});
  return out;
}

}  // namespace attest
