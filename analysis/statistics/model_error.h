// weighted_error of a model: a number per query and setting, made of the heads' cells that results hold.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "analysis/results/results_file.h"
#include "kernels/metric_info.h"

namespace attest {

inline constexpr std::string_view kWeightedErrorMetric = "weighted_error", kWeightedErrorHead = "weighted_error_head";

/// Its axes are those of a metric of a layer; the model counts as one layer.
MetricInfo weighted_error_info();

/// [1, N, S] of weighted_error_head [Y, N, Hq, S]: the sum over layers of sqrt(sum over heads of its squares), NaN
/// where a layer is.
MetricArray weighted_error(const MetricArray& heads);

/// Of a prompt and selector: `metric` as the results have it, or weighted_error. Empty if they lack what it is made of.
std::optional<MetricArray> read_metric(const ResultsFile& results, std::size_t dump, std::size_t sample,
                                       std::size_t selector, std::string_view metric);

/// The metric of the results that `metric` is made of.
inline std::string_view stored_part(std::string_view metric) {
  return metric == kWeightedErrorMetric ? kWeightedErrorHead : metric;
}

}  // namespace attest
