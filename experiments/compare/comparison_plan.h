// Which rows a comparison has, and which arrays they are read from.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "experiments/compare/comparison.h"

namespace attest {

/// The rows of one metric at one setting.
struct SeriesSetting {
  IndexPair setting;
  std::size_t heads = 0;          ///< into Comparison::heads
  std::vector<std::size_t> rows;  ///< into Comparison::rows, one per statistic
};

/// The cells of one metric of one selector, which are read once for all settings and statistics.
struct CellSeries {
  MetricStatistic metric;             ///< with any statistic
  std::optional<std::size_t> pair{};  ///< into MatchedSelectors::pairs; empty for a metric of the exact scores
  std::vector<SeriesSetting> settings;
};

/// Adds the rows to `comparison`, whose prompts and selectors are matched. Throws InputError for a metric that one of
/// the files lacks, unless request.only_common_metrics, and for one whose definition differs; UsageError for one that
/// is always equal.
std::vector<CellSeries> plan_rows(const ResultsFile& first, const ResultsFile& second, const ComparisonRequest& request,
                                  Comparison& comparison);

}  // namespace attest
