// Targets: parsing, and how far a number is from one.
#include "analysis/validation/target.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "analysis/metrics/metric.h"
#include "dumps/base/error.h"
#include "dumps/base/printable.h"
#include "dumps/base/text_parts.h"

namespace attest {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

[[noreturn]] void fail(std::string_view text, std::string_view reason) {
  throw UsageError(fmt::format("--target '{}': {}", printable(text), reason));
}

MetricStatistic quantity_of(std::string_view text, std::string_view typed) {
  MetricStatistic quantity;
  try {
    quantity = parse_metric_statistic(typed);
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("--target {}", error.what()));
  }
  if (quantity.statistic == CellStatistic::count || quantity.statistic == CellStatistic::std)
    fail(text, fmt::format("expected mean, min, max, median, or a quantile such as p99 after the metric, found '{}'",
                           quantity.statistic_name));
  if (quantity.of_scores)
    fail(text, fmt::format("'{}' is of the exact scores, which no selector changes", quantity.metric));
  return quantity;
}

}  // namespace

bool Target::is_met_by(double x) const {
  const double stored = quantity.deficit ? 1 - value : value, rounding = std::abs(stored) * 0x1p-24;
  return at_least ? x >= value - rounding : x <= value + rounding;
}

bool Target::has_deficit() const {
  return at_least ? quantity.info.range.max == 1 : quantity.deficit || quantity.info.range.min >= 0;
}

double Target::deficit(double x) const { return std::max(0.0, at_least ? 1 - x : x); }

double Target::relative_deficit(double x) const {
  if (has_deficit()) {
    const double allowed = allowed_deficit(), found = deficit(x);
    if (is_met_by(x)) return allowed > 0 ? std::min(1.0, found / allowed) : 0;
    // What allows nothing has no unit. The rank among such numbers still follows their size.
    return allowed > 0 ? found / allowed : 1 + found;
  }
  const double beyond = at_least ? value - x : x - value;
  const double unit = value == 0 ? 1 : std::abs(value);
  const double relative = std::exp(beyond / unit);
  return is_met_by(x) ? std::min(1.0, relative) : relative;
}

std::optional<double> Target::worst_value() const {
  const MetricRange& range = quantity.info.range;
  const double worst = at_least != quantity.deficit ? range.min : range.max;
  if (!std::isfinite(worst)) return std::nullopt;
  return quantity.deficit ? 1 - worst : worst;
}

std::optional<double> Target::dense_value() const {
  const auto of = [&](double x) { return quantity.deficit ? 1 - x : x; };
  const Metric* metric = find_metric(quantity.stored_metric());
  if (metric != nullptr && metric->info.is_cost) return of(1);
  if (quantity.metric == "span_mass_kept") return std::nullopt;  // all of span_mass, which differs from cell to cell
  if (metric == nullptr || metric->needs.estimate || metric->info.better == Better::neither) return std::nullopt;
  if (metric->info.better == Better::lower) return 0;
  if (metric->info.range.max == 1) return of(1);
  return std::nullopt;
}

Target parse_target(std::string_view text) {
  const std::size_t sign = text.find_first_of("<>=");
  if (sign == std::string_view::npos || (text.substr(sign, 2) != ">=" && text.substr(sign, 2) != "<="))
    fail(text, "expected METRIC>=VALUE or METRIC<=VALUE, for instance 'recall.min>=0.999'");
  Target target{
      .quantity = quantity_of(text, trimmed(text.substr(0, sign))), .at_least = text[sign] == '>', .text = {}};
  const std::string_view number = trimmed(text.substr(sign + 2));
  const std::optional<double> value = parse_number<double>(number);
  if (!value || !std::isfinite(*value))
    fail(text, fmt::format("expected a number after {}, found '{}'", text.substr(sign, 2), printable(number)));
  target.value = *value;
  const Better better = target.quantity.info.better;
  const bool higher = (better == Better::higher) != target.quantity.deficit;
  if (better != Better::neither && higher != target.at_least)
    fail(text, fmt::format("{} is better for {}, so that the worst settings would meet this; expected {}{}VALUE",
                           higher ? "higher" : "lower", target.quantity.quantity(), target.quantity.name(),
                           higher ? ">=" : "<="));
  const MetricRange& range = target.quantity.info.range;
  const double maximum = target.quantity.deficit ? 1 - range.min : range.max;
  const double minimum = target.quantity.deficit ? 1 - range.max : range.min;
  if (target.at_least ? target.value > maximum : target.value < minimum)
    fail(text, fmt::format("no {} is {} {}", target.quantity.quantity(), target.at_least ? "above" : "below",
                           target.at_least ? maximum : minimum));
  target.text = fmt::format(
      "{}{}{}{}{}", target.quantity.quantity(), target.quantity.statistic_name == "mean" ? "" : ".",
      target.quantity.statistic_name == "mean" ? "" : target.quantity.statistic_name, text.substr(sign, 2), number);
  return target;
}

Target answers_target() {
  MetricStatistic answers;
  answers.info.name = kAnswersMetric;
  answers.info.better = Better::higher;
  answers.info.range = {.min = 0, .max = 1};
  answers.metric = kAnswersMetric;
  answers.statistic_name = "mean";
  return {.quantity = answers, .value = 1, .text = "answers"};
}

std::vector<Target> parse_targets(std::span<const std::string> texts) {
  std::vector<Target> targets;
  for (const std::string& text : texts) {
    targets.push_back(parse_target(text));
    for (std::size_t i = 0; i + 1 < targets.size(); ++i)
      if (targets[i].quantity.name() == targets.back().quantity.name() &&
          targets[i].at_least == targets.back().at_least)
        throw UsageError(
            fmt::format("--target: '{}' and '{}' are of the same number", targets[i].text, targets.back().text));
  }
  return targets;
}

}  // namespace attest
