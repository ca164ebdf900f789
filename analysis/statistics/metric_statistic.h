// A statistic of the cells of a metric, typed METRIC[.STAT]: a column of `attest table`, the number of a target.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "analysis/statistics/aggregate.h"
#include "kernels/base/metric_info.h"

namespace attest {

/// recall over the cells whose exact mass on the span is at least kRetrievalMass. Results do not store it.
inline constexpr std::string_view kSpanRecallMetric = "span_recall";

enum class CellStatistic : std::uint8_t { mean, std, min, max, count, quantile };

struct MetricStatistic {
  MetricInfo info;         ///< of the metric in the results; of recall for span_recall
  std::string metric;      ///< its name
  bool of_scores = false;  ///< a metric of the exact scores
  bool deficit = false;    ///< of 1 - x instead of x
  CellStatistic statistic = CellStatistic::mean;
  double level = 0;              ///< of a quantile
  std::string statistic_name{};  ///< as typed: "p99.9"

  std::string quantity() const;  ///< "recall", "recall_deficit", "dropped_mass"
  std::string name() const;      ///< "recall_deficit.p99.9"
  /// The metric of the results whose cells are taken: recall for span_recall.
  std::string_view stored_metric() const { return metric == kSpanRecallMetric ? "recall" : std::string_view(metric); }
};

/// METRIC is a metric of `attest list`, span_recall, NAME_deficit for a metric whose best value is 1, or dropped_mass.
/// STAT is mean (the default), std, min, max, worst, median, count, pNN or pNN.N. Throws UsageError: "'TEXT': ...".
MetricStatistic parse_metric_statistic(std::string_view text);

/// The parts of parse_metric_statistic(): of METRIC, with the mean; and with STAT. `typed` is for the error.
MetricStatistic parse_metric(std::string_view typed, std::string_view metric);
MetricStatistic with_statistic(MetricStatistic metric, std::string_view typed, std::string_view statistic);

/// Of `cells`, which are reordered; NaN cells are left out. NaN if there are none, but 0 for CellStatistic::count.
/// Quantiles interpolate linearly (quantile.h).
double statistic_of(std::span<float> cells, const MetricStatistic& statistic);
/// The same of cells with these moments; NaN for CellStatistic::quantile.
double statistic_of(const Moments& moments, const MetricStatistic& statistic);

}  // namespace attest
