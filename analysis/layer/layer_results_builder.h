// The result arrays of one layer, filled row by row from any number of threads (each row has its own cells).
#pragma once

#include <span>
#include <vector>

#include "analysis/layer/layer_results_layout.h"

namespace attest {

class LayerResultsBuilder {
 public:
  LayerResultsBuilder(const StudyOptions& options, const AttentionLayer& layer);

  const SelectorLayout& layout(std::size_t selector) const { return layout_.selectors[selector]; }

  /// Cell of metric `metric` for (query, head): its S, M or single values, in the grid's given order.
  std::span<float> cells(std::size_t selector, std::size_t metric, std::int64_t query, int head);
  float& score_cell(std::size_t metric, std::int64_t query, int head);

  /// What recall_layer needs of one (query, head, setting): dot product of o^ with o and the squared norms.
  struct OutputProducts {
    double dot = 0, square = 0, exact_square = 0;
  };
  std::span<OutputProducts> products(std::size_t selector, std::int64_t query, int head);

  /// Sums heads in ascending order into recall_layer and hands over the results.
  LayerResults finish();

 private:
  std::size_t row(std::int64_t query, int head) const { return static_cast<std::size_t>(query * num_heads_ + head); }

  LayerResultsLayout layout_;
  std::int64_t num_queries_;
  int num_heads_;
  std::vector<std::vector<OutputProducts>> products_;  // [selector][N, Hq, S]
  LayerResults results_;
};

}  // namespace attest
