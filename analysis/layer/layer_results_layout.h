// The layout of a layer's results: which arrays there are, their sizes, and their offsets in one common buffer.
#pragma once

#include <span>
#include <variant>
#include <vector>

#include "analysis/metrics/metric.h"
#include "analysis/metrics/span_tokens.h"
#include "analysis/results/layer_results.h"
#include "analysis/study/study.h"
#include "dumps/attention_layer.h"

namespace attest {

struct ResultArray {
  MetricInfo info;
  const Metric* metric = nullptr;  ///< row of the table of metrics; null for a selector's own metric
  std::size_t per_row = 0;         ///< cells per (query, head), or per query if there is no head axis: S, M, 1 or S T
  std::size_t size = 0;            ///< number of cells
  std::size_t begin = 0;           ///< number of cells in the arrays before this one

  /// The metric's functions, if they are of this kind; else null.
  template <class Functions>
  const Functions* functions() const {
    return metric == nullptr ? nullptr : std::get_if<Functions>(&metric->functions);
  }
};

/// The arrays of one selector: first the metrics of the table, in its order, then the selector's own metrics.
struct SelectorLayout {
  std::vector<bool> dense_heads;  ///< [KV heads] Selector::is_dense()
  bool dense = false;             ///< all of them are
  std::size_t num_settings = 0;
  SpanBits span_bits;         ///< the shape of its bits; words is 0 if no metric needs them
  std::size_t first_own = 0;  ///< index in `arrays` of the selector's first own metric
  std::vector<ResultArray> arrays;
};

struct LayerResultsLayout {
  LayerResultsLayout() = default;
  LayerResultsLayout(const Study& study, std::span<const Metric> metrics, const AttentionLayer& layer);

  /// Results with these arrays, every cell NaN.
  LayerResults undefined() const;

  int layer = 0;
  std::vector<SpanTokenRange> seen_span_tokens;  ///< [N]
  std::vector<ResultArray> scores;
  std::vector<SelectorLayout> selectors;
  std::size_t num_cells = 0;  ///< total over all arrays
};

}  // namespace attest
