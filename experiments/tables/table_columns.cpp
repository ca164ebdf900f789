// Parses the columns of a table.
#include "experiments/tables/table_columns.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>

#include "analysis/statistics/ladder.h"
#include "dumps/base/error.h"
#include "dumps/base/printable.h"

namespace attest {
namespace {

/// Rungs towards the bad end: descending quantiles of a metric that is better the higher it is, and has no best value.
void add_ladder(std::vector<MetricStatistic>& columns, MetricStatistic column, std::string_view typed) {
  if (column.info.better == Better::neither)
    throw UsageError(
        fmt::format("'{}': no value of '{}' is bad, so that it has no ladder", printable(typed), column.metric));
  const std::optional<Badness> badness = badness_of(column.info);
  column.deficit = badness == Badness::deficit;
  const bool descends = badness == Badness::mirrored;
  for (const char* rung :
       {"mean", "median", descends ? "p5" : "p95", descends ? "p1" : "p99", descends ? "p0.1" : "p99.9", "worst"})
    columns.push_back(with_statistic(column, typed, rung));
}

void add_columns(std::vector<MetricStatistic>& columns, std::string_view typed) {
  const std::size_t dot = typed.find('.');
  if (dot != std::string_view::npos && typed.substr(dot + 1) == "ladder")
    add_ladder(columns, parse_metric(typed, typed.substr(0, dot)), typed);
  else
    columns.push_back(parse_metric_statistic(typed));
}

}  // namespace

std::vector<MetricStatistic> parse_columns(std::span<const std::string> names) {
  std::vector<MetricStatistic> columns;
  for (const std::string& typed : names) try {
      add_columns(columns, typed);
    } catch (const UsageError& error) {
      throw UsageError(fmt::format("--metrics: {}", error.what()));
    }
  for (auto column = columns.begin(); column != columns.end(); ++column)
    if (std::any_of(columns.begin(), column, [&](const MetricStatistic& c) { return c.name() == column->name(); }))
      throw UsageError(fmt::format("--metrics: '{}' is there twice", column->name()));
  return columns;
}

}  // namespace attest
