// Float32 rounding steps shared by all quantisers: exact, and branch-free so that loops over channels vectorise.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

#include "dumps/element_type.h"
#include "kernels/quantize/vector_steps.h"

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

/// The same cut towards zero: bits that do not fit are dropped.
template <int kMantissa, int kSmallestExponent>
inline float cut_to_small_float(float x, float largest) {
  constexpr auto kPower = [](int exponent) { return std::bit_cast<float>(std::uint32_t(127 + exponent) << 23); };
  constexpr float kSmallestNormal = kPower(kSmallestExponent), kSpacing = kPower(kSmallestExponent - kMantissa);
  constexpr std::uint32_t kMask = (1u << (23 - kMantissa)) - 1;
  const float absolute = std::fabs(x);
  const float cut = absolute < kSmallestNormal ? std::floor(absolute / kSpacing) * kSpacing
                                               : std::bit_cast<float>(std::bit_cast<std::uint32_t>(absolute) & ~kMask);
  return std::copysign(std::min(cut, largest), x);
}

/// Float8 e4m3fn (4 exponent bits, bias 7, 3 mantissa bits, no infinity), saturating at 448.
inline float round_to_e4m3(float x) { return round_to_small_float<3, -6>(x, 448.0f); }
/// Float8 e5m2 (5 exponent bits, bias 15, 2 mantissa bits), saturating at 57344.
inline float round_to_e5m2(float x) { return round_to_small_float<2, -14>(x, 57344.0f); }
inline float cut_to_e4m3(float x) { return cut_to_small_float<3, -6>(x, 448.0f); }
inline float cut_to_e5m2(float x) { return cut_to_small_float<2, -14>(x, 57344.0f); }

/// The value that a float16 would keep; infinite from 65520 on. x must not be NaN.
inline float through_float16(float x) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float rounded = round_to_small_float<10, -14>(x, kInfinity);
  return rounded > 65504.0f ? kInfinity : rounded < -65504.0f ? -kInfinity : rounded;
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

/// Minimum and maximum of x[0 .. count), count >= 1.
inline std::pair<float, float> range_of(const float* x, int count) {
  Vec16f v, lo = Vec16f{} + x[0], hi = lo;
  int i = 0;
  for (; i + 16 <= count; i += 16) {
    load(x + i, v);
    lo = v < lo ? v : lo;
    hi = v > hi ? v : hi;
  }
  std::pair range(smallest_of(lo), largest_of(hi));
  for (; i < count; ++i) range = {std::min(range.first, x[i]), std::max(range.second, x[i])};
  return range;
}

}  // namespace attest
