// Gives access to the cells of a layer's arrays and combines the heads' sums into metrics of the whole layer.
#include "analysis/layer/layer_results_builder.h"

namespace attest {
namespace {

const LayerFunctions* layer_functions(const ResultArray& array) {
  return array.metric == nullptr ? nullptr : std::get_if<LayerFunctions>(&array.metric->functions);
}

}  // namespace

LayerResultsBuilder::LayerResultsBuilder(const Study& study, std::span<const Metric> metrics,
                                         const AttentionLayer& layer)
    : layout_(study, metrics, layer),
      num_queries_(layer.num_queries()),
      num_heads_(layer.shape.num_query_heads),
      results_(layout_.undefined()) {
  for (const SelectorLayout& selector : layout_.selectors) {
    std::vector<std::vector<HeadSums>>& sums = head_sums_.emplace_back(selector.arrays.size());
    for (std::size_t a = 0; a < sums.size(); ++a)
      if (layer_functions(selector.arrays[a]) != nullptr) sums[a].resize(row(num_queries_, 0) * selector.num_settings);
  }
}

float& LayerResultsBuilder::score_cell(std::size_t array, std::int64_t query, int head) {
  return results_.scores[array].values[row(query, head)];
}

std::span<float> LayerResultsBuilder::cells(std::size_t selector, std::size_t array, std::int64_t query, int head) {
  const std::size_t count = layout_.selectors[selector].arrays[array].per_row;
  return {results_.selectors[selector].metrics[array].values.data() + row(query, head) * count, count};
}

std::span<HeadSums> LayerResultsBuilder::head_sums(std::size_t selector, std::size_t array, std::int64_t query,
                                                   int head) {
  const std::size_t count = layout_.selectors[selector].num_settings;
  return {head_sums_[selector][array].data() + row(query, head) * count, count};
}

LayerResults LayerResultsBuilder::finish() {
  for (std::size_t s = 0; s < layout_.selectors.size(); ++s) {
    const SelectorLayout& layout = layout_.selectors[s];
    for (std::size_t a = 0; a < layout.arrays.size(); ++a) {
      const LayerFunctions* functions = layer_functions(layout.arrays[a]);
      if (functions == nullptr) continue;
      std::vector<float>& values = results_.selectors[s].metrics[a].values;
      for (std::int64_t n = 0; n < num_queries_; ++n)
        for (std::size_t i = 0; i < layout.num_settings; ++i) {
          HeadSums total{};
          for (int h = 0; h < num_heads_; ++h)
            for (std::size_t t = 0; t < total.size(); ++t) total[t] += head_sums(s, a, n, h)[i][t];
          values[static_cast<std::size_t>(n) * layout.num_settings + i] = static_cast<float>(functions->combine(total));
        }
    }
  }
  return std::move(results_);
}

}  // namespace attest
