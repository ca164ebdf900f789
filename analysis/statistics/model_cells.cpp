// Joins the cells of heads.
#include "analysis/statistics/model_cells.h"

#include <span>
#include <vector>

namespace attest {

std::optional<MetricArray> read_metric(const ResultsFile& results, std::size_t dump, std::size_t sample,
                                       std::size_t selector, std::string_view metric) {
  const ModelMetric* of_model = find_model_metric(metric);
  std::optional<MetricArray> heads = results.read(dump, sample, selector, stored_part(metric));
  if (of_model == nullptr || !heads) return heads;
  const std::vector<float>& margin = results.study().dumps[dump].samples[sample].margin;
  if (heads->axes != MetricAxes::query_head_setting) return std::nullopt;
  if (of_model->sum == ModelMetric::Sum::margin_less && margin.empty()) return std::nullopt;
  const std::int64_t queries = heads->shape[1], settings = heads->shape[3];
  const auto layers = static_cast<std::size_t>(heads->num_layers());
  ModelSum sum(of_model->sum, layers, static_cast<std::size_t>(queries), static_cast<std::size_t>(settings), margin);
  const std::size_t per_layer = heads->values.size() / layers;
  for (std::size_t y = 0; y < layers; ++y) sum.add(y, std::span(heads->values).subspan(y * per_layer, per_layer));
  return MetricArray{.axes = MetricAxes::query_setting, .shape = {1, queries, settings}, .values = sum.take()};
}

}  // namespace attest
