// Rounding against tables and against exponent arithmetic.
#include "kernels/quantize/rounding.h"

#include <gtest/gtest.h>

#include "tests/cases.h"
#include "tests/kernels/plain.h"

namespace attest::test {
namespace {

TEST(RoundHalfEven, TiesGoToTheEvenNeighbour) {
  for (float x : {0.5f, 1.5f, 2.5f, -0.5f, -1.5f, 254.5f, 255.5f, 0.49999997f, 3.0f})
    EXPECT_EQ(round_half_even(x), std::nearbyint(x)) << x;
}

/// Every value of e4m3fn: 126 positive ones, from 2^-9 to 448.
std::vector<float> e4m3_values() {
  std::vector<float> values{0};
  for (int exponent = 0; exponent < 16; ++exponent)
    for (int mantissa = 0; mantissa < 8; ++mantissa) {
      if (exponent == 15 && mantissa == 7) continue;  // NaN
      if (exponent == 0 && mantissa > 0) values.push_back(std::ldexp(static_cast<float>(mantissa), -9));
      if (exponent > 0) values.push_back(std::ldexp(1 + static_cast<float>(mantissa) / 8, exponent - 7));
    }
  return values;
}

TEST(RoundToE4m3, NearestValueOfTheTableTiesToEvenMantissa) {
  const std::vector<float> table = e4m3_values();
  ASSERT_EQ(table.size(), 127u);
  for (std::size_t i = 0; i + 1 < table.size(); ++i) {
    const float low = table[i], high = table[i + 1], middle = (low + high) / 2;
    EXPECT_EQ(round_to_e4m3(low), low);
    EXPECT_EQ(round_to_e4m3(middle), i % 2 == 0 ? low : high) << middle;
    EXPECT_EQ(round_to_e4m3(std::nextafter(middle, 0.0f)), low);
    EXPECT_EQ(round_to_e4m3(std::nextafter(middle, 1e3f)), high);
    EXPECT_EQ(round_to_e4m3(-middle), -round_to_e4m3(middle));
  }
  for (float x : {449.0f, 464.0f, 480.0f, 1e4f, 3e38f}) {
    EXPECT_EQ(round_to_e4m3(x), 448);
    EXPECT_EQ(round_to_e4m3(-x), -448);
  }
  EXPECT_EQ(round_to_e4m3(1e-30f), 0);
}

/// Towards zero, by arithmetic on exponents.
double cut(double x, int digits, int minimum, double largest) {
  if (x == 0) return x;
  int exponent = 0;
  std::frexp(x, &exponent);
  const double unit = std::ldexp(1.0, std::max(exponent - digits, minimum));
  return std::clamp(std::trunc(x / unit) * unit, -largest, largest);
}

TEST(CutTo, IsTheLargestValueOfNoLargerMagnitude) {
  Random random(3);
  for (int i = 0; i < 20000; ++i) {
    const auto x = static_cast<float>(std::exp(random.uniform(-30, 14)) * (random.below(2) == 0 ? 1 : -1));
    ASSERT_EQ(static_cast<double>(cut_to_e4m3(x)), cut(x, 4, -9, 448)) << x;
    ASSERT_EQ(static_cast<double>(cut_to_e5m2(x)), cut(x, 3, -16, 57344)) << x;
  }
  for (const float x : e4m3_values()) {
    EXPECT_EQ(cut_to_e4m3(x), x);
    EXPECT_EQ(cut_to_e4m3(std::nextafter(-x, -1e6f)), -x);
  }
}

TEST(RoundTo, AgreesWithArithmeticOnExponents) {
  Random random(3);
  for (int i = 0; i < 20000; ++i) {
    const auto x = static_cast<float>(std::exp(random.uniform(-30, 14)) * (random.below(2) == 0 ? 1 : -1));
    for (ElementType type : {ElementType::float16, ElementType::bfloat16, ElementType::float32})
      ASSERT_EQ(static_cast<double>(round_to(type, x)), to_type(type, static_cast<double>(x)))
          << x << " " << name_of(type);
    ASSERT_EQ(static_cast<double>(round_to_e4m3(x)), to_e4m3(static_cast<double>(x))) << x;
  }
}

TEST(RoundTo, SaturatesWhereFloat16Overflows) {
  EXPECT_EQ(round_to(ElementType::float16, 65520.0f), 65504.0f);
  EXPECT_EQ(round_to(ElementType::float16, -1e6f), -65504.0f);
}

TEST(ThroughFloat16, IsTheConversionAndBack) {
  Random random(5);
  for (int i = 0; i < 20000; ++i) {
    const auto x = static_cast<float>(std::exp(random.uniform(-30, 14)) * (random.below(2) == 0 ? 1 : -1));
    ASSERT_EQ(through_float16(x), float16_to_float(float_to_float16(x))) << x;
  }
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float x : {0.0f, 65504.0f, 65519.0f, 65520.0f, 1e38f, infinity, 0x1p-24f, 0x1p-25f, 0x1.8p-25f, 0x1p-149f})
    for (const float own : {x, -x}) EXPECT_EQ(through_float16(own), float16_to_float(float_to_float16(own))) << own;
}

TEST(RangeOf, AllLengthsAndPlaces) {
  Random random(4);
  for (int n = 1; n < 70; ++n) {
    std::vector<float> x(static_cast<std::size_t>(n));
    for (float& value : x) value = static_cast<float>(random.normal());
    EXPECT_EQ(range_of(x.data(), n),
              (std::pair{*std::min_element(x.begin(), x.end()), *std::max_element(x.begin(), x.end())}));
  }
}

}  // namespace
}  // namespace attest::test
