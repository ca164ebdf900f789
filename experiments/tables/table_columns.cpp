// Parses METRIC[.STAT] against the table of metrics and the metrics of the selectors.
#include "experiments/tables/table_columns.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "analysis/metrics/metric.h"
#include "analysis/statistics/ladder.h"
#include "dumps/base/error.h"
#include "dumps/base/printable.h"
#include "kernels/selectors/registry.h"

namespace attest {
namespace {

constexpr std::string_view kDeficit = "_deficit";
constexpr std::string_view kDroppedMass = "dropped_mass";  ///< of mass_recall, whose deficit it is

/// The metrics that only some selectors define.
std::vector<MetricInfo> own_metrics() {
  std::vector<MetricInfo> infos;
  for (const SelectorInfo* info : all_selectors()) {
    const std::string name(info->name);
    for (const MetricInfo& own : make_selector({name, name, {}})->own_metrics()) infos.push_back(own);
  }
  return infos;
}

/// The column of a metric without its statistic; empty if there is no such metric.
std::optional<TableColumn> plain_column(std::string_view name) {
  const Metric* metric = find_metric(name == kSpanRecallMetric ? "recall" : name);
  if (metric != nullptr)
    return TableColumn{.info = metric->info, .metric = std::string(name), .of_scores = metric->of_scores()};
  static const std::vector<MetricInfo> own = own_metrics();
  const auto found = std::ranges::find(own, name, &MetricInfo::name);
  if (found == own.end()) return std::nullopt;
  return TableColumn{.info = *found, .metric = std::string(name)};
}

bool has_deficit(const MetricInfo& info) { return badness_of(info) == Badness::deficit; }

[[noreturn]] void fail(std::string_view column, std::string_view reason) {
  throw UsageError(fmt::format("--metrics: '{}': {}", printable(column), reason));
}

TableColumn column_of_metric(std::string_view column, std::string_view name) {
  std::optional<TableColumn> found = plain_column(name);
  if (!found && name == kDroppedMass) found = plain_column("mass_recall");
  const bool of_deficit = !found && name.ends_with(kDeficit);
  if (of_deficit) found = plain_column(name.substr(0, name.size() - kDeficit.size()));
  if (!found)
    fail(column, fmt::format("there is no metric '{}'; 'attest list' has them, and there are {}, {} and NAME{}",
                             printable(name), kSpanRecallMetric, kDroppedMass, kDeficit));
  found->deficit = of_deficit || name == kDroppedMass;
  if (found->deficit && !has_deficit(found->info))
    fail(column, fmt::format("'{}' has no deficit: 1 is not its best value", found->metric));
  if (found->info.axes == MetricAxes::query_head_lambda)
    fail(column, fmt::format("'{}' has a value for each lambda, and a table has no such axis", found->metric));
  return *found;
}

/// NN or NN.N as a share of 1.
std::optional<double> level_of(std::string_view text) {
  double percent = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), percent, std::chars_format::fixed);
  if (error != std::errc{} || end != text.data() + text.size() || !(percent >= 0 && percent <= 100))
    return std::nullopt;
  return percent / 100;
}

TableColumn with_statistic(TableColumn column, std::string_view typed, std::string_view name) {
  column.statistic_name = name;
  if (name == "worst") {
    if (column.info.better == Better::neither) fail(typed, fmt::format("no value of '{}' is worst", column.metric));
    const bool lower_is_worse = column.info.better == Better::higher && !column.deficit;
    column.statistic = lower_is_worse ? CellStatistic::min : CellStatistic::max;
    return column;
  }
  constexpr std::pair<std::string_view, CellStatistic> kNames[] = {{"mean", CellStatistic::mean},
                                                                   {"std", CellStatistic::std},
                                                                   {"min", CellStatistic::min},
                                                                   {"max", CellStatistic::max},
                                                                   {"count", CellStatistic::count}};
  for (const auto& [known, statistic] : kNames)
    if (name == known) {
      column.statistic = statistic;
      return column;
    }
  const std::optional<double> level = name == "median"        ? std::optional(0.5)
                                      : name.starts_with('p') ? level_of(name.substr(1))
                                                              : std::nullopt;
  if (!level)
    fail(typed, fmt::format("'{}' is not a statistic; expected mean, std, min, max, worst, median, count, ladder, or a "
                            "quantile such as p99 or p99.9",
                            printable(name)));
  column.statistic = CellStatistic::quantile;
  column.level = *level;
  return column;
}

/// Rungs towards the bad end: descending quantiles of a metric that is better the higher it is, and has no best value.
void add_ladder(std::vector<TableColumn>& columns, TableColumn column, std::string_view typed) {
  if (column.info.better == Better::neither)
    fail(typed, fmt::format("no value of '{}' is bad, so that it has no ladder", column.metric));
  column.deficit = has_deficit(column.info);
  const bool descends = badness_of(column.info) == Badness::mirrored;
  for (const char* rung :
       {"mean", "median", descends ? "p5" : "p95", descends ? "p1" : "p99", descends ? "p0.1" : "p99.9", "worst"})
    columns.push_back(with_statistic(column, typed, rung));
}

}  // namespace

std::string TableColumn::quantity() const {
  if (!deficit) return metric;
  return metric == "mass_recall" ? std::string(kDroppedMass) : metric + std::string(kDeficit);
}

std::string TableColumn::name() const { return fmt::format("{}.{}", quantity(), statistic_name); }

std::vector<TableColumn> parse_columns(std::span<const std::string> names) {
  std::vector<TableColumn> columns;
  for (const std::string& typed : names) {
    const std::size_t dot = typed.find('.');
    const TableColumn column = column_of_metric(typed, std::string_view(typed).substr(0, dot));
    const std::string statistic = dot == std::string::npos ? "mean" : typed.substr(dot + 1);
    if (statistic == "ladder")
      add_ladder(columns, column, typed);
    else
      columns.push_back(with_statistic(column, typed, statistic));
  }
  for (auto column = columns.begin(); column != columns.end(); ++column)
    if (std::any_of(columns.begin(), column, [&](const TableColumn& c) { return c.name() == column->name(); }))
      throw UsageError(fmt::format("--metrics: '{}' is there twice", column->name()));
  return columns;
}

}  // namespace attest
