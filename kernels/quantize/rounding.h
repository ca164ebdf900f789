// Float32 rounding steps shared by all quantisers: exact, and branch-free so that loops over channels vectorise.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <utility>

#include "dumps/element_type.h"

namespace attest {

/// Round half to even, for |x| < 2^22: adding 1.5 * 2^23 leaves no fraction bits.
inline float round_half_even(float x) {
  constexpr float kMagic = 12582912.0f;
  return (x + kMagic) - kMagic;
}

/// Rounds x to float8 e4m3fn (4 exponent bits, bias 7, 3 mantissa bits, no infinity), half to even, saturating at 448,
/// and returns it as float32. x must be finite.
inline float round_to_e4m3(float x) {
  constexpr float kLargest = 448.0f, kSmallestNormal = 0x1p-6f;
  constexpr float kSubnormalMagic = 0x1.8p+14f;  // its ulp is 2^-9, the spacing of e4m3 subnormals
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t magnitude = bits & 0x7FFFFFFFu;
  const float absolute = std::bit_cast<float>(magnitude);
  const std::uint32_t kept = (magnitude + 0x7FFFFu + ((magnitude >> 20) & 1u)) & 0xFFF00000u;
  float rounded = std::bit_cast<float>(kept);
  rounded = rounded < kLargest ? rounded : kLargest;
  const float subnormal = (absolute + kSubnormalMagic) - kSubnormalMagic;
  rounded = absolute < kSmallestNormal ? subnormal : rounded;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(rounded) | (bits & 0x80000000u));
}

/// r() of the released 16-bit quantisers: x rounded to the dump's element type, as float32. Saturates at 65504 in
/// float16, where the released code overflows to infinity and then produces NaN.
inline float round_to(ElementType type, float x) {
  switch (type) {
    case ElementType::float16:
      return float16_to_float(float_to_float16(std::clamp(x, -65504.0f, 65504.0f)));
    case ElementType::bfloat16:
      return bfloat16_to_float(float_to_bfloat16(x));
    case ElementType::float32:
      break;
  }
  return x;
}

/// Minimum and maximum of x[0 .. count), count >= 1. Works in independent lanes so that it vectorises.
inline std::pair<float, float> range_of(const float* x, int count) {
  constexpr int kLanes = 16;
  float lo[kLanes], hi[kLanes];
  std::fill_n(lo, kLanes, x[0]);
  std::fill_n(hi, kLanes, x[0]);
  int i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (int l = 0; l < kLanes; ++l) {
      lo[l] = std::min(lo[l], x[i + l]);
      hi[l] = std::max(hi[l], x[i + l]);
    }
  for (int l = 0; i + l < count; ++l) {
    lo[l] = std::min(lo[l], x[i + l]);
    hi[l] = std::max(hi[l], x[i + l]);
  }
  return {*std::min_element(lo, lo + kLanes), *std::max_element(hi, hi + kLanes)};
}

}  // namespace attest
