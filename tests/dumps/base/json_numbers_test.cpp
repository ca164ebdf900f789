// Values that JSON does not have.
#include "dumps/base/json_numbers.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace attest {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity(), kNaN = std::numeric_limits<double>::quiet_NaN();

TEST(JsonNumbers, WhatIsNotFiniteIsNullOrText) {
  EXPECT_EQ(finite_or_null(1.5).dump(), "1.5");
  EXPECT_EQ(finite_or_null(kInfinity).dump(), "null");
  EXPECT_EQ(list_of_numbers(std::vector<double>{0.25, kInfinity, -kInfinity, kNaN}).dump(),
            R"([0.25,"inf","-inf",null])");
  EXPECT_EQ(list_of_numbers(std::vector<double>{kInfinity}, finite_or_null).dump(), "[null]");
  EXPECT_EQ(text_or_null("").dump(), "null");
  EXPECT_EQ(text_or_null("a").dump(), "\"a\"");
}

}  // namespace
}  // namespace attest
