// What a prompt must reach: METRIC[.STAT] >= VALUE or <= VALUE.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/statistics/metric_statistic.h"

namespace attest {

/// Not a metric of cells: 1 where an answer is right, 0 where it is wrong although dense attention answers right.
inline constexpr std::string_view kAnswersMetric = "answers";

struct Target {
  MetricStatistic quantity;  ///< of the cells of one prompt
  bool at_least = true;      ///< >= instead of <=
  double value = 0;
  std::string text;  ///< "recall.min>=0.999"

  /// Results store float32: a number within its rounding of `value` meets the target. False for NaN.
  bool is_met_by(double x) const;

  bool of_answers() const { return quantity.metric == kAnswersMetric; }

  /// Whether there is a deficit: a number of at least 0 that is 0 at best. 1 - x for targets >= of metrics that are at
  /// most 1, x for targets <= of metrics that are at least 0.
  bool has_deficit() const;
  double deficit(double x) const;
  double allowed_deficit() const { return deficit(value); }

  /// How bad x is in units of what the target allows: at most 1 if x meets the target; grows as x gets worse; never
  /// NaN for a defined x. It puts numbers of different targets on one scale.
  double relative_deficit(double x) const;

  /// The worst number that there can be. Empty if there is none.
  std::optional<double> worst_value() const;

  /// What the metric is in a layer or KV head where attention is exact. Empty if it is not defined there.
  std::optional<double> dense_value() const;
};

/// Parses "recall>=0.999", "lse_error.max <= 0.05". METRIC is a metric that selectors have, or span_recall; STAT is
/// mean (the default), min, max, median, pNN or pNN.N. Throws UsageError that names --target, also of a target against
/// the metric's better direction.
Target parse_target(std::string_view text);

/// That the answer is right wherever dense attention answers right.
Target answers_target();

/// parse_target() of a list. Throws UsageError if a target is there twice.
std::vector<Target> parse_targets(std::span<const std::string> texts);

}  // namespace attest
