// The columns of `attest table`, METRIC[.STAT]: a statistic of the cells of a metric, or of its deficit.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/metric_info.h"

namespace attest {

/// recall over the cells whose exact mass on the span is at least kRetrievalMass. Results do not store it.
inline constexpr std::string_view kSpanRecallMetric = "span_recall";

enum class CellStatistic : std::uint8_t { mean, std, min, max, count, quantile };

struct TableColumn {
  MetricInfo info;         ///< of the metric in the results; of recall for span_recall
  std::string metric;      ///< its name
  bool of_scores = false;  ///< a metric of the exact scores
  bool deficit = false;    ///< of 1 - x instead of x
  CellStatistic statistic = CellStatistic::mean;
  double level = 0;              ///< of a quantile
  std::string statistic_name{};  ///< as typed: "p99.9"

  std::string quantity() const;  ///< "recall", "recall_deficit", "dropped_mass"
  std::string name() const;      ///< "recall_deficit.p99.9"
};

/// Columns in the order of `names`, each METRIC or METRIC.STAT. METRIC is a metric of `attest list`, span_recall,
/// NAME_deficit for a metric whose best value is 1, or dropped_mass. STAT is mean (the default), std, min, max, worst,
/// median, count, pNN or pNN.N, or ladder: mean, median, p95, p99, p99.9 and worst of the deficit where there is one,
/// else of the metric. Throws UsageError.
std::vector<TableColumn> parse_columns(std::span<const std::string> names);

inline constexpr std::string_view kDefaultColumns =
    "keep_ratio,io_ratio,recall.ladder,lse_error.ladder,mass_recall.ladder,recall.count";

}  // namespace attest
