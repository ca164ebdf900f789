// predicted_loss_head on the CPU, and the mean of gradients over a path.
#include "analysis/metrics/predicted_loss.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/base/lane_sum.h"

namespace attest {

void predicted_loss_head(const SelectorRow& row, std::span<double> out) {
  constexpr double kMax = std::numeric_limits<float>::max();
  const std::span<const float> g = row.exact->output_gradient;
  const std::span<const double> o = row.exact->output;
  for (int i = 0; i < row.num_settings; ++i) {
    const std::span<const double> a = row.outputs->output_of(i);
    const double change = lane_sum(o.size(), [&](std::size_t d) { return static_cast<double>(g[d]) * (a[d] - o[d]); });
    out[static_cast<std::size_t>(i)] = std::clamp(0 - change, -kMax, kMax);
  }
}

std::vector<double> path_weights(std::span<const double> scales) {
  std::vector<std::size_t> order(scales.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return scales[i]; });
  std::vector<double> weights(scales.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    const double here = scales[order[i]];
    const double from = i == 0 ? 0 : std::midpoint(scales[order[i - 1]], here);
    const double to = i + 1 == order.size() ? 1 : std::midpoint(here, scales[order[i + 1]]);
    weights[order[i]] = to - from;
  }
  return weights;
}

std::vector<float> path_mean(std::span<const double> scales, std::span<const float> values) {
  if (scales.empty()) return {};
  const std::vector<double> weights = path_weights(scales);
  std::vector<float> mean(values.size() / scales.size());
  for (std::size_t i = 0; i < mean.size(); ++i) {
    double sum = 0;
    for (std::size_t a = 0; a < weights.size(); ++a)
      sum += weights[a] * static_cast<double>(values[a * mean.size() + i]);
    mean[i] = static_cast<float>(sum);
  }
  return mean;
}

}  // namespace attest
