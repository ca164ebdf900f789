// Correlation of an estimate against values worked out by hand. tests/kernels/rank tests ranks and coefficients.
#include "analysis/metrics/rank_correlation.h"

#include "tests/analysis/metrics/metric_rows.h"

namespace attest::test {
namespace {

TEST(RankCorrelation, OfTheTokensThatTheEstimateCovers) {
  HandRow hand;
  const std::vector<double> estimate{5, 7, 6};  // exact: 0, ln 4, ln 2
  const std::vector<std::uint32_t> order{1, 2, 0};
  hand.row.estimate = estimate;
  hand.row.estimate_order = order;
  EXPECT_DOUBLE_EQ(values_of(hand.row, spearman_of_row, 1)[0], 1);
  EXPECT_DOUBLE_EQ(values_of(hand.row, pearson_of_row, 1)[0], 1);
}

TEST(RankCorrelation, IsNotDefinedForConstantsAndForNothing) {
  HandRow hand;
  const std::vector<double> constant{2, 2, 2, 2};
  const std::vector<std::uint32_t> order{0, 1, 2, 3};
  for (std::size_t covered : {4u, 1u, 0u}) {
    hand.row.estimate = std::span(constant).first(covered);
    hand.row.estimate_order = std::span(order).first(covered);
    EXPECT_TRUE(std::isnan(values_of(hand.row, spearman_of_row, 1)[0])) << covered;
    EXPECT_TRUE(std::isnan(values_of(hand.row, pearson_of_row, 1)[0])) << covered;
    EXPECT_TRUE(std::isnan(values_of(hand.row, spearman_block16, 1)[0])) << covered;
  }
}

// Within each block the estimate ranks the tokens in reverse, but the maxima of the three full blocks have the right
// order. The partial fourth block is ignored.
TEST(RankCorrelation, OfBlockMaximaSeesWhatSelectionSees) {
  HandRow hand;
  std::vector<double> scores, estimate;
  for (int j = 0; j < 55; ++j) {
    scores.push_back(100 * (j / 16) + j % 16);
    estimate.push_back(j < 48 ? 100 * (j / 16) - j % 16 : -1e6);
  }
  hand.exact.scores = scores;
  hand.row.estimate = estimate;
  EXPECT_DOUBLE_EQ(values_of(hand.row, spearman_block16, 1)[0], 1);
  EXPECT_TRUE(std::isnan(values_of(hand.row, spearman_block128, 1)[0]));
  hand.row.estimate = std::span(estimate).first(31);
  EXPECT_TRUE(std::isnan(values_of(hand.row, spearman_block16, 1)[0]));  // one full block
}

}  // namespace
}  // namespace attest::test
