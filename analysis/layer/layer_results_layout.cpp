// Determines which arrays a layer's results have, their sizes and offsets.
#include "analysis/layer/layer_results_layout.h"

#include <algorithm>

#include "dumps/token_spans.h"
#include "kernels/base/not_defined.h"

namespace attest {
namespace {

std::size_t values_per_row(MetricAxes axes, std::size_t num_settings, std::size_t num_lambdas, std::size_t num_tokens) {
  switch (axes) {
    case MetricAxes::query_head_setting:
    case MetricAxes::query_setting:
      return num_settings;
    case MetricAxes::query_head_lambda:
      return num_lambdas;
    case MetricAxes::query_setting_token:
      return num_settings * num_tokens;
    case MetricAxes::query_head:
      break;
  }
  return 1;
}

bool has_head_axis(MetricAxes axes) {
  return axes != MetricAxes::query_setting && axes != MetricAxes::query_setting_token;
}

std::vector<SpanTokenRange> seen_by_queries(const AttentionLayer& layer, const std::vector<std::int64_t>& tokens) {
  std::vector<SpanTokenRange> seen;
  for (const std::int64_t position : layer.query_positions)
    seen.push_back({std::ranges::lower_bound(tokens, layer.first_visible_key(position)) - tokens.begin(),
                    std::ranges::upper_bound(tokens, position) - tokens.begin()});
  return seen;
}

}  // namespace

LayerResultsLayout::LayerResultsLayout(const Study& study, std::span<const Metric> metrics,
                                       const AttentionLayer& attention)
    : layer(attention.layer) {
  const auto queries = static_cast<std::size_t>(attention.num_queries()),
             heads = static_cast<std::size_t>(attention.shape.num_query_heads);
  const std::vector<std::int64_t> tokens = span_tokens(attention.spans);
  const bool few_tokens = !tokens.empty() && std::ssize(tokens) <= kMaxSpanTokens;
  seen_span_tokens = seen_by_queries(attention, tokens);
  const auto add = [&](std::vector<ResultArray>& arrays, const MetricInfo& info, const Metric* metric,
                       std::size_t num_settings) {
    const std::size_t per_row = values_per_row(info.axes, num_settings, study.lambdas.size(), tokens.size());
    const std::size_t size = queries * (has_head_axis(info.axes) ? heads : 1) * per_row;
    arrays.push_back({info, metric, per_row, size, num_cells});
    num_cells += size;
  };
  const auto layer_has = [&](const MetricNeeds& needs) {
    return (!needs.spans || !attention.spans.empty()) && (!needs.few_span_tokens || few_tokens) &&
           (!needs.sinks || !attention.sinks.empty()) && (!needs.weights || !attention.head_gradient.empty()) &&
           (!needs.gradients || !attention.output_gradient.empty());
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
    const bool counts_tokens = std::ranges::any_of(out.arrays, [](const ResultArray& array) {
      return std::holds_alternative<SpanTokenFunctions>(array.metric->functions);
    });
    if (counts_tokens)  // of more tokens it is only known whether any head keeps them, which takes less memory
      out.span_bits = {.heads = few_tokens ? attention.shape.num_query_heads : 1,
                       .tokens = std::ssize(tokens),
                       .words = (static_cast<int>(out.num_settings) + kSettingsPerWord - 1) / kSettingsPerWord};
    out.first_own = out.arrays.size();
    for (const MetricInfo& own : chosen.selector->own_metrics()) add(out.arrays, own, nullptr, out.num_settings);
  }
}

LayerResults LayerResultsLayout::undefined() const {
  const auto all = [](const std::vector<ResultArray>& arrays) {
    std::vector<MetricValues> out;
    for (const ResultArray& array : arrays)
      out.push_back(
          {std::string(array.info.name), array.info.axes, std::vector<float>(array.size, static_cast<float>(kNaN))});
    return out;
  };
  LayerResults out;
  out.layer = layer;
  out.scores = all(scores);
  for (const SelectorLayout& selector : selectors) out.selectors.push_back({selector.dense, all(selector.arrays)});
  return out;
}

}  // namespace attest
