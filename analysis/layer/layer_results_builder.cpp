// Gives access to the cells of a layer's arrays and combines what the heads contribute to metrics of the whole layer.
#include "analysis/layer/layer_results_builder.h"

namespace attest {

LayerResultsBuilder::LayerResultsBuilder(const Study& study, std::span<const Metric> metrics,
                                         const AttentionLayer& layer)
    : layout_(study, metrics, layer),
      num_queries_(layer.num_queries()),
      num_heads_(layer.shape.num_query_heads),
      results_(layout_.undefined()) {
  for (const SelectorLayout& selector : layout_.selectors) {
    std::vector<std::vector<HeadSums>>& sums = head_sums_.emplace_back(selector.arrays.size());
    for (std::size_t a = 0; a < sums.size(); ++a)
      if (selector.arrays[a].functions<LayerFunctions>() != nullptr)
        sums[a].resize(row(num_queries_, 0) * selector.num_settings);
    std::vector<std::uint32_t>& words = span_words_.emplace_back(selector.span_bits.size(num_queries_));
    span_bits_.push_back(selector.span_bits);
    span_bits_.back().bits = words.data();
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

void LayerResultsBuilder::combine_sums(std::size_t s) {
  const SelectorLayout& layout = layout_.selectors[s];
  for (std::size_t a = 0; a < layout.arrays.size(); ++a) {
    const LayerFunctions* functions = layout.arrays[a].functions<LayerFunctions>();
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

void LayerResultsBuilder::count_span_tokens(std::size_t s) {
  const SpanBits& bits = span_bits_[s];
  if (bits.words == 0) return;
  const SelectorLayout& layout = layout_.selectors[s];
  std::vector<float> heads(static_cast<std::size_t>(bits.tokens));
  for (std::size_t cell = 0; cell < static_cast<std::size_t>(num_queries_) * layout.num_settings; ++cell) {
    const std::size_t query = cell / layout.num_settings;
    count_span_heads(bits, static_cast<std::int64_t>(query), static_cast<int>(cell % layout.num_settings),
                     layout_.seen_span_tokens[query], heads);
    for (std::size_t a = 0; a < layout.first_own; ++a) {
      const auto* functions = layout.arrays[a].functions<SpanTokenFunctions>();
      if (functions == nullptr) continue;
      const std::size_t count = layout.arrays[a].per_row / layout.num_settings;
      functions->cpu(heads, std::span(results_.selectors[s].metrics[a].values).subspan(cell * count, count));
    }
  }
}

LayerResults LayerResultsBuilder::finish() {
  for (std::size_t s = 0; s < layout_.selectors.size(); ++s) {
    combine_sums(s);
    count_span_tokens(s);
  }
  return std::move(results_);
}

}  // namespace attest
