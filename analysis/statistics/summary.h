// The table at the end of a run: one row per selector and setting, one column per statistic that the metrics' rows
// name.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analysis/metrics/metric.h"
#include "analysis/results/layer_results.h"
#include "analysis/results/results_file.h"
#include "analysis/study/study.h"

namespace attest {

struct SummaryHeading {
  std::string_view key;      ///< in JSON
  std::string_view heading;  ///< of the printed table
  std::string_view unit;
};

struct SummaryRow {
  std::string label;
  std::string selector;
  std::string setting;         ///< "delta", "budget", "p", "factor", "none"
  std::string setting_label;   ///< as typed
  std::vector<double> values;  ///< one per column, over all cells (layer, query, head) of all samples; NaN: not defined
};

struct Summary {
  std::vector<SummaryHeading> columns;
  std::vector<SummaryRow> rows;
  bool has_cells = false;  ///< false when every layer was left out
  bool has_spans = false;  ///< of a layer that was studied
  bool with_dense_layers = false;
  std::vector<int> dense_layers;             ///< dense in some selector: left out of every row unless with_dense_layers
  std::vector<std::string> dropped_nothing;  ///< labels of selectors that kept every token at every setting
  std::vector<std::string> scan_not_counted;  ///< labels of selectors whose io_ratio lacks what their estimate costs
};

/// Adds up layers as they come, in any number; memory does not grow with them. All selectors of a study are compared
/// with each other, so all are averaged over the same layers.
class SummaryBuilder {
 public:
  /// `study` outlives this.
  SummaryBuilder(const Study& study, bool with_dense_layers);

  /// Metrics that the layer does not have count as not defined.
  void add(const LayerResults& layer);
  Summary finish() const;

 private:
  /// Of cells that are not NaN.
  struct Statistics {
    double sum = 0, min = 0, max = 0;
    std::int64_t count = 0;

    void add(double value);
    double get(SummaryColumn::Statistic statistic) const;
  };
  /// Of one selector at one setting.
  struct Cells {
    std::map<const Metric*, Statistics> metrics;
    Statistics span_recall;
    bool kept_all = true;
  };

  void add(const LayerResults& layer, std::size_t selector);

  const Study& study_;
  const bool with_dense_layers_;
  std::vector<const Metric*> metrics_;     ///< those with summary columns
  std::vector<std::vector<Cells>> cells_;  ///< [selector][setting]
  std::vector<int> dense_layers_;          ///< ascending
  bool has_spans_ = false;
};

/// The same from a finished file.
Summary summarize(const ResultsFile& results, bool with_dense_layers);

}  // namespace attest
