// The result arrays of one layer, filled row by row from any number of threads (each row has its own cells).
#pragma once

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
  /// Cells of layout().selectors[selector].arrays[array] for (query, head): its S, M or single values, settings in the
  /// order given.
  std::span<float> cells(std::size_t selector, std::size_t array, std::int64_t query, int head);
  /// What (query, head) adds to a metric of the whole layer, for each setting in the order given.
  std::span<HeadSums> head_sums(std::size_t selector, std::size_t array, std::int64_t query, int head);

  /// Combines the sums of the heads, in ascending order of the heads, and hands over the results.
  LayerResults finish();

 private:
  std::size_t row(std::int64_t query, int head) const { return static_cast<std::size_t>(query * num_heads_ + head); }

  LayerResultsLayout layout_;
  std::int64_t num_queries_;
  int num_heads_;
  std::vector<std::vector<std::vector<HeadSums>>> head_sums_;  // [selector][array][N, Hq, S] of layer metrics
  LayerResults results_;
};

}  // namespace attest
