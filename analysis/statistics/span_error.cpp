// Weighted means over layers and heads.
#include "analysis/statistics/span_error.h"

#include <cmath>

#include "kernels/base/not_defined.h"

namespace attest {

std::vector<double> span_error(const MetricArray& error, const MetricArray& mass, std::span<const std::size_t> layers) {
  const auto queries = static_cast<std::size_t>(error.shape[1]), heads = static_cast<std::size_t>(error.shape[2]),
             settings = static_cast<std::size_t>(error.shape[3]);
  std::vector<double> errors(queries * settings), weights(queries * settings);
  for (const std::size_t y : layers)
    for (std::size_t row = 0; row < queries * heads; ++row) {
      const auto weight = static_cast<double>(mass.values[y * queries * heads + row]);
      if (std::isnan(weight)) continue;
      const float* of_row = error.values.data() + (y * queries * heads + row) * settings;
      for (std::size_t s = 0; s < settings; ++s) {
        if (std::isnan(of_row[s])) continue;
        errors[row / heads * settings + s] += weight * static_cast<double>(of_row[s]);
        weights[row / heads * settings + s] += weight;
      }
    }
  for (std::size_t i = 0; i < errors.size(); ++i) errors[i] = weights[i] > 0 ? errors[i] / weights[i] : kNaN;
  return errors;
}

}  // namespace attest
