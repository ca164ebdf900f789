// The axes of a metric's array in a results file: names, order, lengths.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/study/study.h"
#include "kernels/base/metric_info.h"

namespace attest {

/// Lengths of the axes of one sample's metrics.
struct AxisSizes {
  std::int64_t layers = 0, queries = 0, heads = 0, settings = 0, lambdas = 0, tokens = 0;
};

/// Of a selector's metrics, or of those of the exact scores if `selector` is null.
AxisSizes axis_sizes(const Study& study, const StudyDump& dump, const StudySample& sample,
                     const StudySelector* selector);

/// Names of an array's axes, slowest first, for instance {"layer", "query", "head", "setting"}. They are the dimension
/// labels of its data set.
std::span<const std::string_view> axis_names(MetricAxes axes);

/// [Y, N, Hq], [Y, N, Hq, S], [Y, N, Hq, M], [Y, N, S] or [Y, N, S, T].
std::vector<std::int64_t> shape_of(MetricAxes axes, const AxisSizes& sizes);

/// The axes with this number in MetricAxes; empty if none have it.
std::optional<MetricAxes> axes_numbered(int number);

/// The axes with these names; empty if no kind of metric has them.
std::optional<MetricAxes> axes_named(std::span<const std::string> names);

/// Whether the metric has one value per setting, which is then the last axis.
inline bool has_settings(MetricAxes axes) {
  return axes == MetricAxes::query_head_setting || axes == MetricAxes::query_setting;
}

}  // namespace attest
