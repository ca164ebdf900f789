// Chooses the wavelengths and fills their tables.
#include "dumps/synthetic/positions.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace attest {

PositionFeatures::PositionFeatures(int head_dim, std::int64_t num_tokens) {
  constexpr double shortest = 256, ratio = 4;
  if (head_dim < 16) return;
  const int half = head_dim / 2;
  const auto frequency = [&](int c) { return std::pow(kRopeTheta, -2.0 * c / head_dim); };
  // Wavelengths grow until one exceeds the number of tokens, so that it does not repeat within them.
  for (double wavelength = shortest; static_cast<int>(channels_.size()) < head_dim / 4; wavelength *= ratio) {
    const double exponent = std::log(wavelength / (2 * std::numbers::pi)) / std::log(kRopeTheta);
    const int channel = std::min(static_cast<int>(std::lround(exponent * head_dim / 2)), half - 1);
    if (channels_.empty() || channels_.back() != channel) channels_.push_back(channel);
    if (channel == half - 1 || wavelength > 1.2 * static_cast<double>(num_tokens)) break;
  }
  for (const int channel : channels_) {
    auto& coarse = coarse_.emplace_back();
    auto& fine = fine_.emplace_back();
    for (std::int64_t t = 0; t <= num_tokens; t += kFine)
      coarse.push_back(std::polar(1.0, frequency(channel) * static_cast<double>(t)));
    for (std::int64_t t = 0; t < kFine; ++t)
      fine.push_back(std::polar(1.0, frequency(channel) * static_cast<double>(t)));
  }
}

double PositionFeatures::log_sum(std::int64_t visible, double height_per_pair) const {
  const double peak = height_per_pair * pairs();
  double sum = 0;
  for (std::int64_t distance = 0; distance < visible; ++distance) {
    double score = 0;
    for (int pair = 0; pair < pairs(); ++pair) score += height_per_pair * turn(pair, distance).real();
    sum += std::exp(score - peak);
  }
  return peak + std::log(sum);
}

}  // namespace attest
