// The axes of a metric's array in a results file: names, lengths, order.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/metric_info.h"

namespace attest {

/// Lengths of the axes of one sample's metrics.
struct AxisSizes {
  std::int64_t layers = 0, queries = 0, heads = 0, settings = 0, lambdas = 0;
};

/// Names of an array's axes, slowest first: the dimension labels of its data set. {"layer", "query", "head", "setting"}
std::span<const std::string_view> axis_names(MetricAxes axes);

/// [Y, N, Hq], [Y, N, Hq, S], [Y, N, Hq, M] or [Y, N, S].
std::vector<std::int64_t> shape_of(MetricAxes axes, const AxisSizes& sizes);

/// The axes of these names; empty where no metric has such.
std::optional<MetricAxes> axes_named(std::span<const std::string> names);

/// Whether the metric has one value per setting.
inline bool has_settings(MetricAxes axes) {
  return axes == MetricAxes::query_head_setting || axes == MetricAxes::query_setting;
}

}  // namespace attest
