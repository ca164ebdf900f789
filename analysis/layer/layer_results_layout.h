// Which arrays the results of a layer have, and where each begins if all of them stand in one: known before any is
// filled.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "analysis/layer/layer_study.h"
#include "analysis/metrics/metric.h"

namespace attest {

struct ResultArray {
  std::string name;
  MetricAxes axes = MetricAxes::query_head;
  std::size_t per_row = 0;  ///< cells of one (query, head), or of one query where the axes have no head: S, M or 1
  std::size_t size = 0;     ///< cells
  std::size_t begin = 0;    ///< cells of the arrays before it
};

/// The arrays of one selector: the metrics that all selectors have, then io_ratio and recall_layer, then its own.
struct SelectorLayout {
  bool dense = false;  ///< dense_layers makes it exact in this layer
  std::size_t num_settings = 0;
  std::vector<const SelectorMetric*> common;
  std::size_t io_ratio = 0, recall_layer = 0, first_row_metric = 0,
              first_setting_metric = 0;  ///< positions in `arrays`
  std::vector<ResultArray> arrays;
};

struct LayerResultsLayout {
  LayerResultsLayout() = default;
  LayerResultsLayout(const StudyOptions& options, const AttentionLayer& layer);

  /// The arrays, every cell undefined (NaN).
  LayerResults undefined() const;

  int layer = 0;
  std::vector<ResultArray> scores;
  std::vector<SelectorLayout> selectors;
  std::size_t num_cells = 0;  ///< of all arrays
};

/// Null if no array has that name.
const ResultArray* find_array(const std::vector<ResultArray>& arrays, std::string_view name);

}  // namespace attest
