// The result arrays of one layer, filled row by row from any number of threads (each row has its own cells).
#pragma once

#include <span>
#include <vector>

#include "analysis/layer_study.h"
#include "analysis/metrics/metric.h"

namespace attest {

/// Which metrics a selector has in a layer, in the order of its arrays: the common ones, then its own.
struct SelectorMetricPlan {
  std::vector<const SelectorMetric*> common;
  std::size_t io_ratio = 0, recall_layer = 0;         ///< positions of these arrays
  std::size_t first_row_metric = 0, first_setting_metric = 0;
};

class LayerResultsBuilder {
 public:
  LayerResultsBuilder(const StudyOptions& options, const AttentionLayer& layer);

  const SelectorMetricPlan& plan(std::size_t selector) const { return plans_[selector]; }
  bool dense(std::size_t selector) const { return results_.selectors[selector].dense; }

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
  void add(std::size_t selector, const char* name, MetricAxes axes);
  std::size_t per_cell(std::size_t selector, MetricAxes axes) const;

  std::size_t num_lambdas_;
  std::int64_t num_queries_;
  int num_heads_;
  std::vector<std::size_t> num_settings_;
  std::vector<SelectorMetricPlan> plans_;
  std::vector<std::vector<OutputProducts>> products_;  // [selector][N, Hq, S]
  LayerResults results_;
};

}  // namespace attest
