// Parses METRIC[.STAT] against the table of metrics and the metrics of the selectors.
#include "analysis/statistics/metric_statistic.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "analysis/metrics/metric.h"
#include "analysis/statistics/ladder.h"
#include "analysis/statistics/model_cells.h"
#include "dumps/base/error.h"
#include "dumps/base/join.h"
#include "dumps/base/printable.h"
#include "dumps/base/text_parts.h"
#include "kernels/base/not_defined.h"
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

/// The mean of a metric; empty if there is no such metric.
std::optional<MetricStatistic> plain_metric(std::string_view name) {
  if (const ModelMetric* of_model = find_model_metric(name))
    return MetricStatistic{.info = of_model->info, .metric = std::string(name)};
  const Metric* metric = find_metric(name == kSpanRecallMetric ? "recall" : name);
  if (metric != nullptr)
    return MetricStatistic{.info = metric->info, .metric = std::string(name), .of_scores = metric->of_scores()};
  static const std::vector<MetricInfo> own = own_metrics();
  const auto found = std::ranges::find(own, name, &MetricInfo::name);
  if (found == own.end()) return std::nullopt;
  return MetricStatistic{.info = *found, .metric = std::string(name)};
}

std::vector<std::string_view> names_of_model_metrics() {
  std::vector<std::string_view> names;
  for (const ModelMetric& metric : kModelMetrics) names.push_back(metric.info.name);
  return names;
}

bool has_deficit(const MetricInfo& info) { return badness_of(info) == Badness::deficit; }

[[noreturn]] void fail(std::string_view typed, std::string_view reason) {
  throw UsageError(fmt::format("'{}': {}", printable(typed), reason));
}

/// NN or NN.N as a share of 1.
std::optional<double> level_of(std::string_view text) {
  const std::optional<double> percent = parse_number<double>(text, std::chars_format::fixed);
  if (!percent || !(*percent >= 0 && *percent <= 100)) return std::nullopt;
  return *percent / 100;
}

}  // namespace

MetricStatistic parse_metric(std::string_view typed, std::string_view name) {
  std::optional<MetricStatistic> found = plain_metric(name);
  if (!found && name == kDroppedMass) found = plain_metric("mass_recall");
  const bool of_deficit = !found && name.ends_with(kDeficit);
  if (of_deficit) found = plain_metric(name.substr(0, name.size() - kDeficit.size()));
  if (!found)
    fail(typed,
         fmt::format("there is no metric '{}'; 'attest list' has them, and there are {}, {}, {} and NAME{}",
                     printable(name), kSpanRecallMetric, join(names_of_model_metrics(), ", "), kDroppedMass, kDeficit));
  found->deficit = of_deficit || name == kDroppedMass;
  if (found->deficit && !has_deficit(found->info))
    fail(typed, fmt::format("'{}' has no deficit: 1 is not its best value", found->metric));
  if (found->info.axes == MetricAxes::query_head_lambda)
    fail(typed, fmt::format("'{}' has a value for each lambda, which has no place here", found->metric));
  if (found->info.axes == MetricAxes::query_setting_token)
    fail(typed, fmt::format("'{}' has a value for each span token, which has no place here", found->metric));
  return *found;
}

MetricStatistic with_statistic(MetricStatistic metric, std::string_view typed, std::string_view name) {
  metric.statistic_name = name;
  if (name == "worst") {
    if (metric.info.better == Better::neither) fail(typed, fmt::format("no value of '{}' is worst", metric.metric));
    const bool lower_is_worse = metric.info.better == Better::higher && !metric.deficit;
    metric.statistic = lower_is_worse ? CellStatistic::min : CellStatistic::max;
    return metric;
  }
  constexpr std::pair<std::string_view, CellStatistic> kNames[] = {{"mean", CellStatistic::mean},
                                                                   {"std", CellStatistic::std},
                                                                   {"min", CellStatistic::min},
                                                                   {"max", CellStatistic::max},
                                                                   {"count", CellStatistic::count}};
  for (const auto& [known, statistic] : kNames)
    if (name == known) {
      metric.statistic = statistic;
      return metric;
    }
  const std::optional<double> level = name == "median"        ? std::optional(0.5)
                                      : name.starts_with('p') ? level_of(name.substr(1))
                                                              : std::nullopt;
  if (!level)
    fail(typed, fmt::format("'{}' is not a statistic; expected mean, std, min, max, worst, median, count or a "
                            "quantile such as p99 or p99.9",
                            printable(name)));
  metric.statistic = CellStatistic::quantile;
  metric.level = *level;
  return metric;
}

MetricStatistic parse_metric_statistic(std::string_view text) {
  const std::size_t dot = text.find('.');
  return with_statistic(parse_metric(text, text.substr(0, dot)), text,
                        dot == std::string_view::npos ? "mean" : text.substr(dot + 1));
}

std::string MetricStatistic::quantity() const {
  if (!deficit) return metric;
  return metric == "mass_recall" ? std::string(kDroppedMass) : metric + std::string(kDeficit);
}

std::string MetricStatistic::name() const { return fmt::format("{}.{}", quantity(), statistic_name); }

double statistic_of(std::span<float> cells, const MetricStatistic& statistic) {
  const auto undefined = std::ranges::remove_if(cells, [](float x) { return std::isnan(x); });
  const std::span<float> defined = cells.first(cells.size() - undefined.size());
  if (statistic.statistic == CellStatistic::quantile)
    return badness_quantiles(defined, std::span(&statistic.level, 1),
                             statistic.deficit ? Badness::deficit : Badness::value)[0];
  return statistic_of(describe(std::span<const float>(defined)), statistic);
}

double statistic_of(const Moments& moments, const MetricStatistic& statistic) {
  switch (statistic.statistic) {
    case CellStatistic::mean:
      return statistic.deficit ? 1 - moments.mean : moments.mean;
    case CellStatistic::std:
      return moments.std;
    case CellStatistic::min:
      return statistic.deficit ? 1 - moments.max : moments.min;
    case CellStatistic::max:
      return statistic.deficit ? 1 - moments.min : moments.max;
    case CellStatistic::count:
      return static_cast<double>(moments.count);
    case CellStatistic::quantile:
      break;
  }
  return kNaN;
}

}  // namespace attest
