#include "analysis/layer/layer_results_builder.h"

#include "analysis/metrics/output_fidelity.h"

namespace attest {

LayerResultsBuilder::LayerResultsBuilder(const StudyOptions& options, const AttentionLayer& layer)
    : layout_(options, layer),
      num_queries_(layer.num_queries()),
      num_heads_(layer.shape.num_query_heads),
      results_(layout_.undefined()) {
  for (const SelectorLayout& selector : layout_.selectors)
    products_.emplace_back(row(num_queries_, 0) * selector.num_settings);
}

std::span<float> LayerResultsBuilder::cells(std::size_t selector, std::size_t metric, std::int64_t query, int head) {
  const std::size_t count = layout_.selectors[selector].arrays[metric].per_row;
  return {results_.selectors[selector].metrics[metric].values.data() + row(query, head) * count, count};
}

float& LayerResultsBuilder::score_cell(std::size_t metric, std::int64_t query, int head) {
  return results_.scores[metric].values[row(query, head)];
}

std::span<LayerResultsBuilder::OutputProducts> LayerResultsBuilder::products(std::size_t selector, std::int64_t query,
                                                                             int head) {
  const std::size_t count = layout_.selectors[selector].num_settings;
  return {products_[selector].data() + row(query, head) * count, count};
}

LayerResults LayerResultsBuilder::finish() {
  for (std::size_t s = 0; s < layout_.selectors.size(); ++s) {
    const SelectorLayout& layout = layout_.selectors[s];
    std::vector<float>& recall_layer = results_.selectors[s].metrics[layout.recall_layer].values;
    for (std::int64_t n = 0; n < num_queries_; ++n)
      for (std::size_t i = 0; i < layout.num_settings; ++i) {
        OutputProducts sum;
        for (int h = 0; h < num_heads_; ++h) {
          const OutputProducts& head = products(s, n, h)[i];
          sum.dot += head.dot;
          sum.square += head.square;
          sum.exact_square += head.exact_square;
        }
        recall_layer[static_cast<std::size_t>(n) * layout.num_settings + i] =
            static_cast<float>(cosine(sum.dot, sum.square, sum.exact_square));
      }
  }
  return std::move(results_);
}

}  // namespace attest
