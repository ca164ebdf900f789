// The table at the end of a run: one row per selector and setting.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/statistics/sample_cells.h"

namespace attest {

/// Over all cells (layer, query, head) of all samples; NaN where not defined.
struct SummaryRow {
  std::string label;
  std::string selector;
  std::string setting;        ///< "delta", "budget", "p", "none"
  std::string setting_label;  ///< as typed
  double mean_recall = 0, min_recall = 0;
  double mean_span_recall = 0, min_span_recall = 0;
  double max_lse_error = 0;
  double keep_ratio = 0, io_ratio = 0, spearman = 0, salient_hit_rate = 0;  ///< means
  double min_keep_ratio = 0;
};

struct Summary {
  std::vector<SummaryRow> rows;
  bool has_cells = false;  ///< false when every layer was left out
  bool has_spans = false;
  bool with_dense_layers = false;
  std::vector<int> dense_layers;             ///< dense in some selector: left out of every row unless with_dense_layers
  std::vector<std::string> dropped_nothing;  ///< labels of selectors that kept every token at every setting
};

/// All selectors of the file are compared with each other, so all are averaged over the same layers.
Summary summarize(const ResultsFile& results, bool with_dense_layers);

}  // namespace attest
