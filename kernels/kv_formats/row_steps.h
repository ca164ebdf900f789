// Steps that several formats share: largest magnitude of a block, checks of the number of channels.
#pragma once

#include <fmt/core.h>

#include <bit>
#include <cstdint>
#include <string>

#include "kernels/kv_formats/kv_format.h"

namespace attest {

/// Compared as integers, which order like the magnitudes and vectorise.
inline float max_magnitude(const float* x, int count) {
  std::uint32_t largest = 0;
  for (int i = 0; i < count; ++i) {
    const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(x[i]) & 0x7FFFFFFFu;
    largest = magnitude > largest ? magnitude : largest;
  }
  return std::bit_cast<float>(largest);
}

/// For 0 <= x < 2^24. It computes in integers, so that loops vectorise.
inline int round_half_up(float x) {
  const int whole = static_cast<int>(x);
  return whole + (x - static_cast<float>(whole) >= 0.5f ? 1 : 0);
}

inline std::string fault_unless_multiple(const KvRows& rows, int of) {
  if (rows.channels % of == 0) return {};
  return fmt::format("{} channels, expected a multiple of {}", rows.channels, of);
}

inline std::string fault_unless_power_of_two(const KvRows& rows) {
  if (std::has_single_bit(static_cast<unsigned>(rows.channels))) return {};
  return fmt::format("{} channels, expected a power of 2", rows.channels);
}

}  // namespace attest
