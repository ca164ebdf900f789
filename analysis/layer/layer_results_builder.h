// The result arrays of one layer on the CPU. Several threads may fill them at once, since each row has its own cells.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "analysis/layer/layer_results_layout.h"

namespace attest {

class LayerResultsBuilder {
 public:
  LayerResultsBuilder(const Study& study, std::span<const Metric> metrics, const AttentionLayer& layer);

  const LayerResultsLayout& layout() const { return layout_; }

  /// Cells of the score metric layout().scores[array].
  float& score_cell(std::size_t array, std::int64_t query, int head);
  /// Cells of layout().selectors[selector].arrays[array] for (query, head): S values (settings in the order given), M
  /// values, or one.
  std::span<float> cells(std::size_t selector, std::size_t array, std::int64_t query, int head);
  /// The sums of (query, head) for a metric of the whole layer, one per setting in the order given.
  std::span<HeadSums> head_sums(std::size_t selector, std::size_t array, std::int64_t query, int head);

  /// The bits of span tokens; `words` is 0 if no metric needs them.
  const SpanBits& span_bits(std::size_t selector) const { return span_bits_[selector]; }

  /// Adds the heads' sums in ascending order of the heads, combines them, counts the bits of span tokens, and returns
  /// the results.
  LayerResults finish();

 private:
  void combine_sums(std::size_t selector);
  void count_span_tokens(std::size_t selector);
  std::size_t row(std::int64_t query, int head) const { return static_cast<std::size_t>(query * num_heads_ + head); }

  LayerResultsLayout layout_;
  std::int64_t num_queries_;
  int num_heads_;
  std::vector<std::vector<std::vector<HeadSums>>> head_sums_;  // [selector][array][N, Hq, S]; empty if not per layer
  std::vector<std::vector<std::uint32_t>> span_words_;         // [selector]
  std::vector<SpanBits> span_bits_;
  LayerResults results_;
};

}  // namespace attest
