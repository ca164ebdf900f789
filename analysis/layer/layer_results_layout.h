// Which arrays the results of a layer have, and where each begins if all of them stand in one: known before any is
// filled.
#pragma once

#include <span>
#include <vector>

#include "analysis/metrics/metric.h"
#include "analysis/results/layer_results.h"
#include "analysis/study/study.h"
#include "dumps/attention_layer.h"

namespace attest {

struct ResultArray {
  MetricInfo info;
  const Metric* metric = nullptr;  ///< row of the table; null for a metric of the selector's own
  std::size_t per_row = 0;  ///< cells of one (query, head), or of one query where the axes have no head: S, M or 1
  std::size_t size = 0;     ///< cells
  std::size_t begin = 0;    ///< cells of the arrays before it
};

/// The arrays of one selector: the metrics that all selectors have, in the order of the table, then its own.
struct SelectorLayout {
  bool dense = false;  ///< dense_layers makes it exact in this layer
  std::size_t num_settings = 0;
  std::size_t first_own = 0;  ///< position in `arrays` of the selector's own metrics
  std::vector<ResultArray> arrays;
};

struct LayerResultsLayout {
  LayerResultsLayout() = default;
  LayerResultsLayout(const Study& study, std::span<const Metric> metrics, const AttentionLayer& layer);

  /// The arrays, every cell undefined (NaN).
  LayerResults undefined() const;

  int layer = 0;
  std::vector<ResultArray> scores;
  std::vector<SelectorLayout> selectors;
  std::size_t num_cells = 0;  ///< of all arrays
};

}  // namespace attest
