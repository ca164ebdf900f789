// The columns of `attest table`: statistics of metrics, and ladders of them.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/statistics/metric_statistic.h"

namespace attest {

/// Columns in the order of `names`, each METRIC[.STAT] (metric_statistic.h), where STAT may also be `ladder`: mean,
/// median, p95, p99, p99.9 and worst of the deficit where there is one, else of the metric; p5, p1 and p0.1 of one that
/// is better when higher. Throws UsageError.
std::vector<MetricStatistic> parse_columns(std::span<const std::string> names);

inline constexpr std::string_view kDefaultColumns =
    "keep_ratio,io_ratio,recall.ladder,lse_error.ladder,mass_recall.ladder,recall.count";

}  // namespace attest
