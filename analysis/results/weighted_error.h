// weighted_error: the weighted errors of a model's heads in one number per row and setting.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace attest {

/// sum over layers of sqrt(sum over heads of weighted_error_head^2), [N, S]. Layers may come in any order, the sum is
/// in that of the layers.
class WeightedErrorSum {
 public:
  WeightedErrorSum(std::size_t num_layers, std::size_t num_queries, std::size_t num_settings)
      : layers_(num_layers), missing_(num_layers), cells_(num_queries * num_settings), num_settings_(num_settings) {}

  /// `heads` [N, Hq, S] of layer y of the sample. Returns whether all layers are there.
  bool add(std::size_t y, std::span<const float> heads);
  /// [N, S]. Frees the layers.
  std::vector<float> take();

 private:
  std::vector<std::vector<double>> layers_;  // [Y][N, S]
  std::size_t missing_, cells_, num_settings_;
};

}  // namespace attest
