// Quantiles against NumPy's values, with NaN and infinities.
#include "analysis/statistics/quantile.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace attest {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

TEST(Quantile, InterpolatesAsNumPyDoes) {
  const std::vector<double> values{3, 1, 10, 2};  // numpy.quantile([3, 1, 10, 2], p)
  EXPECT_DOUBLE_EQ(quantile(values, 0), 1);
  EXPECT_DOUBLE_EQ(quantile(values, 0.05), 1.15);
  EXPECT_DOUBLE_EQ(quantile(values, 0.5), 2.5);
  EXPECT_DOUBLE_EQ(quantile(values, 0.9), 7.9);
  EXPECT_DOUBLE_EQ(quantile(values, 1), 10);
}

TEST(Quantile, LeavesNaNOut) {
  EXPECT_DOUBLE_EQ(quantile({kNaN, 4, kNaN, 2}, 0.25), 2.5);
  EXPECT_TRUE(std::isnan(quantile({kNaN}, 0.5)));
  EXPECT_TRUE(std::isnan(quantile({}, 0.5)));
}

TEST(Quantile, OfOneValueOrOfInfinities) {
  EXPECT_DOUBLE_EQ(quantile({7}, 0.3), 7);
  EXPECT_EQ(quantile({1, kInf, kInf}, 0.9), kInf);
  EXPECT_EQ(quantile({1, 2, kInf}, 0.5), 2);
  EXPECT_EQ(quantile({-kInf, 2, 3}, 0.25), -kInf);
  EXPECT_EQ(quantile({-kInf, kInf}, 0.5), -kInf);
}

}  // namespace
}  // namespace attest
