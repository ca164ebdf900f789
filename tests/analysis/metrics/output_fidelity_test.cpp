// Metrics of the output against values worked out by hand.
#include "analysis/metrics/output_fidelity.h"

#include "tests/analysis/metrics/metric_rows.h"

namespace attest::test {
namespace {

TEST(OutputFidelity, OfThreeSettings) {
  HandRow hand;  // o = (3, 4)
  const SettingOutputs outputs{
      3, 2, {6, 8, 0, 0, -4, 3}, {std::log(8.0), -std::numeric_limits<double>::infinity(), std::log(2.0)}};
  hand.row.outputs = &outputs;
  const Values recalls = values_of(hand.row, recall), errors = values_of(hand.row, output_error),
               lse = values_of(hand.row, lse_error);
  EXPECT_DOUBLE_EQ(recalls[0], 1);
  EXPECT_TRUE(std::isnan(recalls[1]));  // the cosine with a zero vector is not defined
  EXPECT_DOUBLE_EQ(recalls[2], 0);
  EXPECT_EQ(errors, (Values{1, 1, std::sqrt(2.0)}));
  EXPECT_EQ(lse[0], 0);
  EXPECT_EQ(lse[1], std::numeric_limits<double>::infinity());
  EXPECT_DOUBLE_EQ(lse[2], std::log(4.0));
}

TEST(OutputFidelity, OfAZeroOutput) {
  HandRow hand;
  hand.output = {0, 0};
  const SettingOutputs outputs{3, 2, {0, 0, 1, 0, 0, 0}, {0, 0, 0}};
  hand.row.outputs = &outputs;
  EXPECT_EQ(values_of(hand.row, recall)[0], 1);
  EXPECT_TRUE(std::isnan(values_of(hand.row, recall)[1]));
  EXPECT_TRUE(std::isnan(values_of(hand.row, output_error)[0]));
}

TEST(WeightedErrorHead, IsTheNormOfTheDifferenceTimesTheWeight) {
  HandRow hand;  // o = (3, 4)
  hand.exact.head_weight = 0.5;
  const SettingOutputs outputs{3, 2, {3, 4, 0, 0, 3, 16}, {0, 0, 0}};
  hand.row.outputs = &outputs;
  EXPECT_EQ(values_of(hand.row, weighted_error_head), (Values{0, 2.5, 6}));
}

TEST(HeadWeights, AreRootMeanSquaresOverRows) {
  const std::vector<float> gradient{3, 0, 1, 4, 0, 7};  // three rows of two heads
  const std::vector<double> weights = head_weights(gradient, 2);
  ASSERT_EQ(weights.size(), 2u);
  EXPECT_DOUBLE_EQ(weights[0], std::sqrt(10 / 3.0));
  EXPECT_DOUBLE_EQ(weights[1], std::sqrt(65 / 3.0));
  EXPECT_TRUE(head_weights({}, 2).empty());
}

// The square roots are taken before the norms are multiplied: the product of the squared norms would underflow.
TEST(Cosine, OfTinyVectors) { EXPECT_DOUBLE_EQ(cosine(1e-300, 1e-300, 1e-300), 1); }

}  // namespace
}  // namespace attest::test
