// Sums of the cells of heads over heads and layers.
#include "analysis/results/model_metric.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace attest {

const ModelMetric* find_model_metric(std::string_view name) {
  const auto found = std::ranges::find_if(kModelMetrics, [&](const ModelMetric& m) { return m.info.name == name; });
  return found == kModelMetrics.end() ? nullptr : &*found;
}

bool ModelSum::add(std::size_t y, std::span<const float> heads) {
  std::vector<double>& layer = layers_[y];
  if (layer.empty()) --missing_;
  layer.assign(cells_, 0);
  const bool norms = sum_ == ModelMetric::Sum::norms;
  const std::size_t num_heads = heads.size() / cells_;
  for (std::size_t cell = 0; cell < cells_; ++cell) {
    const std::size_t first = cell / num_settings_ * num_heads * num_settings_ + cell % num_settings_;
    for (std::size_t h = 0; h < num_heads; ++h) {
      const double x{heads[first + h * num_settings_]};
      layer[cell] += norms ? x * x : x;
    }
    if (norms) layer[cell] = std::sqrt(layer[cell]);
  }
  return missing_ == 0;
}

std::vector<float> ModelSum::take() {
  constexpr double kMax = std::numeric_limits<float>::max();
  std::vector<float> sums(cells_);
  for (std::size_t cell = 0; cell < cells_; ++cell) {
    double sum = 0;
    for (const std::vector<double>& layer : layers_) sum += layer[cell];
    if (sum_ == ModelMetric::Sum::margin_less) sum = double{margin_[cell / num_settings_]} - sum;
    sums[cell] = static_cast<float>(std::isnan(sum) ? sum : std::clamp(sum, -kMax, kMax));
  }
  layers_ = {};
  return sums;
}

}  // namespace attest
