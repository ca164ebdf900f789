// What a cell of a results file may hold, by the range of its metric.
#pragma once

#include <cmath>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "analysis/results/results_file.h"
#include "kernels/base/metric_info.h"

namespace attest {

/// Of a metric in the table, or of one that the selector alone has; empty for a metric that this program does not know.
/// `selector` is null for the exact scores.
std::optional<MetricRange> range_of(const StudySelector* selector, std::string_view metric);

/// Sums in float32, on the GPU in another order, may pass a bound by their rounding (analysis/GPU.md: 2e-4).
inline constexpr double kRounding = 1e-3;

/// False for NaN.
inline bool is_within(float value, const MetricRange& range) {
  if (std::isinf(value) && !range.may_be_infinite) return false;
  return value >= range.min - kRounding && value <= range.max + kRounding;
}

/// What is wrong with a cell of a computed layer: "is -5, expected at least 0". Empty if nothing is.
std::string defect(float value, const MetricRange& range);

/// "layer 5, query 0, head 3": the layer by its number, the others by their index.
std::string place_text(const MetricArray& array, const StudySample& sample, std::size_t cell);

}  // namespace attest
