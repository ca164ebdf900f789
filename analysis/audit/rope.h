// Rotary positions of a dump, as its attribute `rope` describes them: turning a query by some positions.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace attest {

/// Channel a and b of pair i turn by positions * frequencies[i].
struct Rope {
  std::vector<double> frequencies;  ///< radians per position
  int first_channel = 0;            ///< channels before it do not turn
  bool neighbours = false;          ///< pairs are (2i, 2i + 1), else (i, i + n/2)

  /// Turns a vector [D] by so many positions, which may be negative.
  void turn(double positions, std::span<float> vector) const;
};

/// Of a layer with head_dim channels; empty if the text does not say how its channels turn. Reads `inv_freq`, or
/// `rope_theta` of plain rotation; an object per kind of layer with `layer_types`; `first_channel`.
std::optional<Rope> rope_of_layer(const std::string& text, int layer, int head_dim);

}  // namespace attest
