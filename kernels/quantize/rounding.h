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

/// Rounds x to a float of kMantissa stored mantissa bits whose smallest normal number is 2^kSmallestExponent, half to
/// even, saturating at `largest`, and returns it as float32. x must not be NaN.
template <int kMantissa, int kSmallestExponent>
inline float round_to_small_float(float x, float largest) {
  constexpr auto kPower = [](int exponent) { return std::uint32_t(127 + exponent) << 23; };
  constexpr float kSmallestNormal = std::bit_cast<float>(kPower(kSmallestExponent));
  // 1.5 * 2^e, whose ulp is 2^(kSmallestExponent - kMantissa), the spacing of the subnormals
  constexpr float kSubnormalMagic = std::bit_cast<float>(kPower(kSmallestExponent - kMantissa + 23) | 0x400000u);
  constexpr int kDropped = 23 - kMantissa;
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t magnitude = bits & 0x7FFFFFFFu;
  const float absolute = std::bit_cast<float>(magnitude);
  constexpr std::uint32_t kMask = (1u << kDropped) - 1;
  const std::uint32_t kept = (magnitude + (kMask >> 1) + ((magnitude >> kDropped) & 1u)) & ~kMask;
  float rounded = std::bit_cast<float>(kept);
  rounded = rounded < largest ? rounded : largest;
  const float subnormal = (absolute + kSubnormalMagic) - kSubnormalMagic;
  rounded = absolute < kSmallestNormal ? subnormal : rounded;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(rounded) | (bits & 0x80000000u));
}

/// Float8 e4m3fn (4 exponent bits, bias 7, 3 mantissa bits, no infinity), saturating at 448.
inline float round_to_e4m3(float x) { return round_to_small_float<3, -6>(x, 448.0f); }
/// Float8 e5m2 (5 exponent bits, bias 15, 2 mantissa bits), saturating at 57344.
inline float round_to_e5m2(float x) { return round_to_small_float<2, -14>(x, 57344.0f); }
/// Float4 e2m1: 0, 0.5, 1, 1.5, 2, 3, 4, 6.
inline float round_to_e2m1(float x) { return round_to_small_float<1, 0>(x, 6.0f); }

/// The value that a float16 would keep; infinite beyond 65504 + 15.
inline float through_float16(float x) { return float16_to_float(float_to_float16(x)); }

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
