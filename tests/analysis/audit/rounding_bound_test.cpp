// The bound of rounding: its parts, and how an observed row fits a predicted one.
#include "analysis/audit/rounding_bound.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace attest {
namespace {

constexpr double kExact = 1e-12;  // relative, of a few operations in double

TEST(RoundingBoundTest, TheWiderUnitCounts) {
  using enum ElementType;
  EXPECT_EQ(RoundingBound(bfloat16, float32, 8, 2).unit(), 1.0 / 128);
  EXPECT_EQ(RoundingBound(float16, bfloat16, 8, 2).unit(), 1.0 / 128);
  EXPECT_EQ(RoundingBound(float16, float32, 8, 2).unit(), 1.0 / 1024);
  EXPECT_EQ(RoundingBound(float32, float32, 8, 2).unit(), 1.0 / 1024);  // TF32, or a float16 cache
}

TEST(RoundingBoundTest, ItsPartsAddUp) {
  const RoundingBound bound(ElementType::bfloat16, ElementType::bfloat16, 8, 2);
  const double single = std::pow(2, -23);
  EXPECT_NEAR(bound.of_output({.size = 1, .peak = 9, .product_noise = 0}), 2.0 / 128 + 32 * single * 10, kExact);
  EXPECT_NEAR(bound.of_output({.size = 1, .peak = 0, .product_noise = 3}), 2.75 / 128 + 32 * single, kExact);
  EXPECT_EQ(bound.of_output({.size = 1, .peak = 0, .product_noise = 1000}), 0.5);
  EXPECT_NEAR(bound.of_lse({.size = 1, .peak = 9, .product_noise = 1}, -4), 0.75 / 128 + 32 * single * 14, kExact);
}

TEST(RoundingBoundTest, AFitIsRelativeToTheSizeOfTheRow) {
  const RoundingBound bound(ElementType::float16, ElementType::float16, 2, 2);
  const RowRounding rounding{.size = 10, .peak = 0, .product_noise = 0};
  const std::vector<float> observed{3, 4};
  const double expected[] = {3, 4 + 0.01};
  const RowFit fit = fit_row(observed, NAN, expected, 0, rounding, bound);
  EXPECT_NEAR(fit.error, 0.001, 1e-8);
  EXPECT_TRUE(fit.explained());
  EXPECT_TRUE(std::isnan(fit.lse_difference));
  const double far[] = {3, 4 + 0.03};
  EXPECT_FALSE(fit_row(observed, NAN, far, 0, rounding, bound).explained());
}

TEST(RoundingBoundTest, ALogSumExpCountsWhereThereIsOne) {
  const RoundingBound bound(ElementType::float16, ElementType::float16, 1, 2);
  const RowRounding rounding{.size = 1, .peak = 0, .product_noise = 0};
  const std::vector<float> observed{1};
  const double expected[] = {1};
  EXPECT_TRUE(fit_row(observed, 5.0002, expected, 5, rounding, bound).explained());
  const RowFit fit = fit_row(observed, 5.01, expected, 5, rounding, bound);
  EXPECT_FALSE(fit.explained());
  EXPECT_NEAR(fit.lse_difference, 0.01, kExact);
}

TEST(RoundingBoundTest, NaNIsNeverExplained) {
  const RoundingBound bound(ElementType::float32, ElementType::float32, 1, 2);
  const std::vector<float> observed{1};
  const double nan[] = {NAN};
  EXPECT_FALSE(fit_row(observed, NAN, nan, 0, {.size = 1}, bound).explained());
  const double zero[] = {0};
  EXPECT_FALSE(fit_row(observed, NAN, zero, 0, {.size = 0}, bound).explained());
  const std::vector<float> nothing{0};
  EXPECT_TRUE(fit_row(nothing, NAN, zero, 0, {.size = 0}, bound).explained());
}

}  // namespace
}  // namespace attest
