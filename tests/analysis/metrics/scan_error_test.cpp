// Moments and tails of the scan error, by hand.
#include "analysis/metrics/scan_error.h"

#include "tests/analysis/metrics/metric_rows.h"

namespace attest::test {
namespace {

TEST(ScanError, MomentsAndTails) {
  HandRow hand;
  hand.scores = {0, 0, 0, 0};
  hand.exact.scores = hand.scores;
  const std::vector<double> estimate{1, -1, -2, 0}, lambdas{0.5, 1, 2, 3};
  hand.row.estimate = estimate;
  hand.row.lambdas = lambdas;
  EXPECT_EQ(values_of(hand.row, scan_error_mean, 1), Values{-0.5});
  EXPECT_DOUBLE_EQ(values_of(hand.row, scan_error_std, 1)[0], std::sqrt(1.25));
  EXPECT_EQ(values_of(hand.row, scan_error_max, 1), Values{2});
  EXPECT_EQ(values_of(hand.row, scan_error_tail, 4), (Values{0.75, 0.75, 0.25, 0}));  // a lambda is reached by equality
  EXPECT_EQ(values_of(hand.row, scan_error_lower_tail, 4), (Values{0.5, 0.5, 0.25, 0}));
}

TEST(ScanError, IsNotDefinedWhereNothingIsCovered) {
  HandRow hand;
  const std::vector<double> lambdas{1};
  hand.row.lambdas = lambdas;
  for (auto metric : {scan_error_mean, scan_error_std, scan_error_max, scan_error_tail, scan_error_lower_tail})
    EXPECT_TRUE(std::isnan(values_of(hand.row, metric, 1)[0]));
}

}  // namespace
}  // namespace attest::test
