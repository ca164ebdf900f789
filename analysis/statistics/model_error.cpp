// Joins the weighted errors of heads.
#include "analysis/statistics/model_error.h"

#include <span>

#include "analysis/results/weighted_error.h"

namespace attest {

MetricInfo weighted_error_info() {
  return {kWeightedErrorMetric,
          MetricAxes::query_setting,
          "logits",
          Better::lower,
          "sum over layers of the root of the sum over heads of weighted_error_head's squares",
          {.min = 0}};
}

MetricArray weighted_error(const MetricArray& heads) {
  const std::int64_t queries = heads.shape[1], settings = heads.shape[3];
  const auto layers = static_cast<std::size_t>(heads.num_layers());
  WeightedErrorSum sum(layers, static_cast<std::size_t>(queries), static_cast<std::size_t>(settings));
  const std::size_t per_layer = heads.values.size() / layers;
  for (std::size_t y = 0; y < layers; ++y) sum.add(y, std::span(heads.values).subspan(y * per_layer, per_layer));
  return {.axes = MetricAxes::query_setting, .shape = {1, queries, settings}, .values = sum.take()};
}

std::optional<MetricArray> read_metric(const ResultsFile& results, std::size_t dump, std::size_t sample,
                                       std::size_t selector, std::string_view metric) {
  std::optional<MetricArray> read = results.read(dump, sample, selector, stored_part(metric));
  if (metric != kWeightedErrorMetric || !read) return read;
  if (read->axes != MetricAxes::query_head_setting) return std::nullopt;
  return weighted_error(*read);
}

}  // namespace attest
