// Metrics of the whole model, made of the heads' cells that results hold.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "analysis/results/model_metric.h"
#include "analysis/results/results_file.h"

namespace attest {

inline bool is_of_model(std::string_view metric) { return find_model_metric(metric) != nullptr; }

/// Of a prompt and selector: `metric` as the results have it, or [1, N, S] of the whole model, NaN where a layer is.
/// Empty if the results lack what it is made of.
std::optional<MetricArray> read_metric(const ResultsFile& results, std::size_t dump, std::size_t sample,
                                       std::size_t selector, std::string_view metric);

/// The metric of the results that `metric` is made of.
inline std::string_view stored_part(std::string_view metric) {
  const ModelMetric* of_model = find_model_metric(metric);
  return of_model == nullptr ? metric : of_model->of_heads;
}

}  // namespace attest
