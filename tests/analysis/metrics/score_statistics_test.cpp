// Statistics of the exact scores, by hand.
#include "analysis/metrics/score_statistics.h"

#include "tests/analysis/metrics/metric_rows.h"

namespace attest::test {
namespace {

TEST(ScoreStatistics, OfFourTokens) {
  HandRow hand;
  EXPECT_DOUBLE_EQ(lse(hand.exact), std::log(8.0));
  EXPECT_DOUBLE_EQ(top1_top2_gap(hand.exact), std::log(2.0));
  const double ln2 = std::log(2.0);  // scores 0, 2, 1, 0 times ln 2: mean 3/4, variance (5/4 - 9/16)
  EXPECT_DOUBLE_EQ(score_std(hand.exact), ln2 * std::sqrt(11.0 / 16));
  EXPECT_DOUBLE_EQ(entropy(hand.exact), 1.75 * ln2);
  EXPECT_TRUE(std::isnan(span_mass(hand.exact)));
  hand.span_tokens = {0, 2};
  hand.exact.span_tokens = hand.span_tokens;
  EXPECT_DOUBLE_EQ(span_mass(hand.exact), 0.375);
}

TEST(ScoreStatistics, ALearnedSinkTakesItsShareOfTheSoftmaxAlone) {
  HandRow hand;
  EXPECT_TRUE(std::isnan(sink_mass(hand.exact)));
  const double entropy_of_keys = entropy(hand.exact);
  hand.exact.sink = std::log(24.0);
  hand.exact.lse = std::log(8.0 + 24.0);
  EXPECT_DOUBLE_EQ(sink_mass(hand.exact), 0.75);
  EXPECT_DOUBLE_EQ(lse(hand.exact), std::log(32.0));
  EXPECT_EQ(entropy(hand.exact), entropy_of_keys);
}

TEST(ScoreStatistics, OneTokenHasNoGap) {
  HandRow hand;
  hand.exact.scores = hand.exact.scores.first(1);
  const std::vector<std::uint32_t> order{0};
  hand.exact.order = order;
  EXPECT_TRUE(std::isnan(top1_top2_gap(hand.exact)));
}

}  // namespace
}  // namespace attest::test
