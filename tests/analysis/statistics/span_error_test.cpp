// The span-weighted error, against sums written out by hand.
#include "analysis/statistics/span_error.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace attest::test {
namespace {

constexpr float kNone = std::numeric_limits<float>::quiet_NaN();

TEST(SpanError, WeighsHeadsByTheirSpanMass) {
  // Two layers, two queries, two heads; two settings.
  const MetricArray mass{.axes = MetricAxes::query_head,
                         .shape = {2, 2, 2},
                         .values = {0.5F, 0.25F, /**/ 0, kNone, /*layer*/ 0.25F, 0, /**/ 0, kNone}};
  const MetricArray error{.axes = MetricAxes::query_head_setting,
                          .shape = {2, 2, 2, 2},
                          .values = {1, 2, 4, 8, /**/ 1, 1, 1, 1, /*layer*/ 2, kNone, 99, 99, /**/ 1, 1, 1, 1}};
  const std::vector<std::size_t> both{0, 1}, second{1};
  const std::vector<double> all = span_error(error, mass, both);
  ASSERT_EQ(all.size(), 4u);
  EXPECT_DOUBLE_EQ(all[0], (0.5 * 1 + 0.25 * 4 + 0.25 * 2) / 1.0);
  EXPECT_DOUBLE_EQ(all[1], (0.5 * 2 + 0.25 * 8) / 0.75);  // the undefined cell has no weight
  EXPECT_TRUE(std::isnan(all[2]) && std::isnan(all[3])) << "no head of the query has mass on a span";
  const std::vector<double> one = span_error(error, mass, second);
  EXPECT_DOUBLE_EQ(one[0], 2);
  EXPECT_TRUE(std::isnan(one[1]));
}

}  // namespace
}  // namespace attest::test
