// The three element types that q, k and v may have, and their exact conversion to float32.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace attest {

enum class ElementType : std::uint8_t { float16, bfloat16, float32 };

constexpr std::size_t size_of(ElementType t) { return t == ElementType::float32 ? 4 : 2; }

constexpr std::string_view name_of(ElementType t) {
  return t == ElementType::float16 ? "float16" : t == ElementType::bfloat16 ? "bfloat16" : "float32";
}

/// Exact: every float16 and bfloat16 value, subnormals, infinities and NaN included, has a float32 of the same value.
constexpr float bfloat16_to_float(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

constexpr float float16_to_float(std::uint16_t bits) {
  const std::uint32_t sign = std::uint32_t{bits & 0x8000u} << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1Fu;
  const std::uint32_t mantissa = bits & 0x3FFu;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7F800000u | (mantissa << 13));
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
  return sign ? -magnitude : magnitude;
}

/// Round half to even; overflow becomes infinity, as IEEE 754 conversions do.
constexpr std::uint16_t float_to_bfloat16(float x) {
  const std::uint32_t u = std::bit_cast<std::uint32_t>(x);
  if ((u & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<std::uint16_t>((u >> 16) | 0x40u);
  return static_cast<std::uint16_t>((u + 0x7FFFu + ((u >> 16) & 1u)) >> 16);
}

constexpr std::uint16_t float_to_float16(float x) {
  const std::uint32_t u = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t sign = (u >> 16) & 0x8000u;
  const std::uint32_t magnitude = u & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return static_cast<std::uint16_t>(sign | 0x7E00u);
  if (magnitude >= 0x477FF000u) return static_cast<std::uint16_t>(sign | 0x7C00u);
  if (magnitude < 0x38800000u) {  // below 2^-14: a subnormal half; adding 0.5 makes the float addition round at 2^-24
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3F000000u));
  }
  const std::uint32_t rounded = magnitude + 0xFFFu + ((magnitude >> 13) & 1u) - (112u << 23);
  return static_cast<std::uint16_t>(sign | (rounded >> 13));
}

/// Converts `count` elements of type `type` at `source` to float32 at `target`. (element_type.cpp)
void convert_to_float(ElementType type, const std::byte* source, std::size_t count, float* target);

/// Rounds `count` float32 values to `type`, half to even. (element_type.cpp)
void convert_from_float(ElementType type, const float* source, std::size_t count, std::byte* target);

}  // namespace attest
