// The summary table that a run prints: one row per model, selector and setting, one column per statistic that the table
// of metrics lists (Metric::summary).
#pragma once

#include <cstdint>
#include <limits>
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
  std::string_view key;      ///< key in JSON
  std::string_view heading;  ///< heading in the printed table
  std::string_view unit;
};

struct SummaryRow {
  std::string model;
  std::string label;
  std::string selector;
  std::string setting;         ///< "delta", "budget", "p", "factor", "none"
  std::string setting_label;   ///< as typed
  std::vector<double> values;  ///< one per column, over all cells (layer, query, head) of all samples of the model;
                               ///< NaN: not defined
};

struct Summary {
  std::vector<SummaryHeading> columns;
  std::vector<SummaryRow> rows;
  bool has_cells = false;  ///< false if every layer was left out
  bool has_spans = false;  ///< at least one computed layer has spans
  bool with_dense_layers = false;
  std::vector<int> dense_layers;  ///< dense in a selector: left out of all but costs unless with_dense_layers
  std::vector<std::string> dropped_nothing;   ///< labels of selectors that kept every token at every setting
  std::vector<std::string> scan_not_counted;  ///< labels of selectors whose io_ratio lacks the bytes of the estimate
};

/// Accumulates layers one by one; memory does not grow with their number. All selectors of a study are averaged over
/// the same layers, so that they can be compared; tokens and bytes over all layers, as attest tasks counts them. Models
/// are never averaged.
class SummaryBuilder {
 public:
  /// `study` must outlive this object.
  SummaryBuilder(const Study& study, bool with_dense_layers);

  /// Metrics that the layer lacks count as not defined.
  void add(const LayerResults& layer);
  /// Adds the layers of a builder of the same study. Layers that are merged one by one give the same bits as layers
  /// that are added to one builder.
  void merge(const SummaryBuilder& other);
  Summary finish() const;

 private:
  /// Statistics of the cells that are not NaN.
  struct Statistics {
    double sum = 0;
    double min = std::numeric_limits<double>::infinity(), max = -min;
    std::int64_t count = 0;

    void merge(const Statistics& other);
    double get(SummaryColumn::Statistic statistic) const;
  };
  /// Accumulated cells of one selector at one setting.
  struct Cells {
    std::map<const Metric*, Statistics> metrics;
    Statistics span_recall;
    bool kept_all = true;
    bool averaged = false;  ///< cells of more than costs

    void merge(const Cells& other);
  };

  class RowStatistics;

  void add(const LayerResults& layer, std::size_t selector, bool costs_alone);
  void add_dense_layer(int layer);

  const Study& study_;
  const bool with_dense_layers_;
  std::vector<const Metric*> metrics_;                  ///< those with summary columns
  std::vector<std::string> models_;                     ///< each once, in the order of the dumps
  std::vector<std::size_t> model_of_;                   ///< [dump] index into models_
  std::vector<std::vector<std::vector<Cells>>> cells_;  ///< [model][selector][setting]
  std::vector<int> dense_layers_;                       ///< ascending
  bool has_spans_ = false;
};

/// The summary of a finished results file.
Summary summarize(const ResultsFile& results, bool with_dense_layers);

}  // namespace attest
