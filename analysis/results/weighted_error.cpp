// Sums of weighted errors over heads and layers.
#include "analysis/results/weighted_error.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace attest {

bool WeightedErrorSum::add(std::size_t y, std::span<const float> heads) {
  std::vector<double>& layer = layers_[y];
  if (layer.empty()) --missing_;
  layer.assign(cells_, 0);
  const std::size_t num_heads = heads.size() / cells_;
  for (std::size_t cell = 0; cell < cells_; ++cell) {
    const std::size_t first = cell / num_settings_ * num_heads * num_settings_ + cell % num_settings_;
    for (std::size_t h = 0; h < num_heads; ++h) layer[cell] += std::pow(double{heads[first + h * num_settings_]}, 2);
    layer[cell] = std::sqrt(layer[cell]);
  }
  return missing_ == 0;
}

std::vector<float> WeightedErrorSum::take() {
  constexpr double kMost = std::numeric_limits<float>::max();
  std::vector<float> sums(cells_);
  for (std::size_t cell = 0; cell < cells_; ++cell) {
    double sum = 0;
    for (const std::vector<double>& layer : layers_) sum += layer[cell];
    sums[cell] = static_cast<float>(std::isnan(sum) ? sum : std::min(sum, kMost));
  }
  layers_ = {};
  return sums;
}

}  // namespace attest
