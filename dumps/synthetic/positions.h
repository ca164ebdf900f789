// Rotary position features of synthetic keys and queries, which make a head attend to its own neighbourhood.
#pragma once

#include <complex>
#include <cstdint>
#include <vector>

namespace attest {

/// Some channel pairs (c, c + D/2) of every key hold one constant vector each, rotated by RoPE to the key's position. A
/// query that holds the same vectors at its own position scores sum over pairs of cos(frequency * distance): largest at
/// distance 0. The wavelengths grow fourfold from pair to pair, so that each pair suppresses the repeated maxima of the
/// one before.
class PositionFeatures {
 public:
  /// No pairs when head_dim is below 16. Wavelengths are the nearest that RoPE with kRopeTheta has.
  PositionFeatures(int head_dim, std::int64_t num_tokens);

  int pairs() const { return static_cast<int>(channels_.size()); }

  /// First channel of a pair; the second is head_dim / 2 further.
  int channel(int pair) const { return channels_[static_cast<std::size_t>(pair)]; }

  /// exp(i frequency token).
  std::complex<double> turn(int pair, std::int64_t token) const {
    const auto row = static_cast<std::size_t>(pair);
    return coarse_[row][static_cast<std::size_t>(token / kFine)] * fine_[row][static_cast<std::size_t>(token % kFine)];
  }

  /// Log of the sum over distances 0 .. visible-1 of exp(height_per_pair * sum over pairs of cos(...)).
  double log_sum(std::int64_t visible, double height_per_pair) const;

  static constexpr double kRopeTheta = 500000;

 private:
  static constexpr std::int64_t kFine = 256;
  std::vector<int> channels_;                              // [pairs]
  std::vector<std::vector<std::complex<double>>> coarse_;  // [pairs][T / kFine + 1]
  std::vector<std::vector<std::complex<double>>> fine_;    // [pairs][kFine]
};

}  // namespace attest
