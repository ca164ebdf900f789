// The list of metrics. A metric is a name, its axes and a function of a row: adding one is adding a file and a line in
// metric.cpp.
#pragma once

#include <span>
#include <string_view>

#include "analysis/metrics/rows.h"
#include "analysis/results/study_results.h"

namespace attest {

/// Of the exact scores alone; stored once per sample, [N, Hq].
struct ScoreMetric {
  std::string_view name;
  bool needs_spans;
  double (*evaluate)(const ExactRow&);
};

/// Of one selector. `out` has one element per setting (ascending), one per lambda, or one alone, as `axes` says.
struct SelectorMetric {
  std::string_view name;
  MetricAxes axes;
  bool needs_estimate;
  bool needs_spans;
  void (*evaluate)(const SelectorRow&, std::span<double> out);
};

std::span<const ScoreMetric> score_metrics();
std::span<const SelectorMetric> selector_metrics();

}  // namespace attest
