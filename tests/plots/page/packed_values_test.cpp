// Numbers of the map: codes against exact decimals, order, what is not a number.
#include "plots/page/packed_values.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace attest {
namespace {

/// What packed_values.js makes of a code.
double number_of(std::uint32_t code, int digits) {
  const double minimum = std::pow(10, digits - 1), size = code >> 1;
  double number = size / 1e7;
  if (size >= 10 * minimum) {
    const double above = size - 10 * minimum, exponent = std::floor(above / (9 * minimum)) - 6;
    number = (minimum + std::fmod(above, 9 * minimum)) * std::pow(10, exponent);
  }
  return (code & 1) != 0 ? -number : number;
}

/// `value` to `digits` significant digits or seven decimals, by the C library, which rounds the exact binary value.
double rounded(double value, int digits) {
  const double significant = std::stod(fmt::format("{:.{}e}", value, digits - 1));
  return std::fabs(value) < std::pow(10, digits - 7) ? std::stod(fmt::format("{:.7f}", value)) : significant;
}

TEST(PackedValues, AreTheNumbersRoundedOnce) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> exponent(-9, 6), sign(-1, 1);
  for (int digits = 2; digits <= 5; ++digits)
    for (int i = 0; i < 20000; ++i) {
      const double value = std::copysign(std::pow(10, exponent(random)), sign(random));
      const double expected = rounded(value, digits);
      ASSERT_NEAR(number_of(packed_code(value, digits), digits), expected, 1e-12 * std::fabs(expected))
          << fmt::format("{} at {} digits", value, digits);
    }
}

TEST(PackedValues, BordersOfPowersOfTen) {
  for (int digits = 2; digits <= 5; ++digits)
    for (int decade = -7; decade <= 8; ++decade) {
      const double power = std::pow(10, decade);
      for (const double value : {power, power * (1 - 1e-9), power * (1 + 1e-9), power * 9.99999999}) {
        const double expected = rounded(value, digits);
        ASSERT_NEAR(number_of(packed_code(value, digits), digits), expected, 1e-12 * expected)
            << value << " " << digits;
      }
    }
}

TEST(PackedValues, CodesGrowWithTheNumbers) {
  std::uint32_t before = packed_code(0, 4);
  for (double value = 1e-7; value < 1e6; value *= 1.0003) {
    const std::uint32_t code = packed_code(value, 4);
    ASSERT_GE(code, before) << value;
    before = code;
  }
  EXPECT_LT(packed_code(std::numeric_limits<float>::max(), 5), kPackedMinusInf);
}

TEST(PackedValues, WhatIsNotANumberHasACodeOfItsOwn) {
  EXPECT_EQ(packed_code(std::nan(""), 4), kPackedNaN);
  EXPECT_EQ(packed_code(std::numeric_limits<double>::infinity(), 4), kPackedInf);
  EXPECT_EQ(packed_code(-std::numeric_limits<double>::infinity(), 4), kPackedMinusInf);
  EXPECT_EQ(packed_code(0, 4), 0u);
  EXPECT_EQ(packed_code(-0.0, 4), 0u);
  EXPECT_EQ(packed_code(-4e-8, 4), 0u) << "rounds to zero";
}

TEST(PackedValues, RepeatedNumbersTakeLittleRoom) {
  const std::vector<double> same(10000, 0.98765), none;
  EXPECT_LT(pack_values(same, 4, false).size(), 200u);
  EXPECT_EQ(pack_values(same, 4, false).substr(0, 2), "eJ") << "the header of a zlib stream";
  EXPECT_NE(pack_values(same, 4, true), pack_values(same, 4, false));
  EXPECT_FALSE(pack_values(none, 4, false).empty());
}

TEST(PackedBytes, Base64) {
  EXPECT_EQ(base64(""), "");
  EXPECT_EQ(base64("f"), "Zg==");
  EXPECT_EQ(base64("fo"), "Zm8=");
  EXPECT_EQ(base64("foo"), "Zm9v");
  EXPECT_EQ(base64("foob"), "Zm9vYg==");
  EXPECT_EQ(base64(std::string("\xff\xfe\x00\x80", 4)), "//4AgA==");
}

}  // namespace
}  // namespace attest
