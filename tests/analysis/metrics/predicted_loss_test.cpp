// Predicted losses against values worked out by hand, and means over a path against integrals.
#include "analysis/metrics/predicted_loss.h"

#include "tests/analysis/metrics/metric_rows.h"

namespace attest::test {
namespace {

TEST(PredictedLossHead, IsWhatTheErrorTakesAlongTheGradient) {
  HandRow hand;  // o = (3, 4)
  const std::vector<float> gradient{2, -0.5f};
  hand.exact.output_gradient = gradient;
  const SettingOutputs outputs{3, 2, {3, 4, 0, 0, 4, 6}, {0, 0, 0}};
  hand.row.outputs = &outputs;
  // Exact; all is lost: <g, o>; more along g in one channel than against it in the other.
  EXPECT_EQ(values_of(hand.row, predicted_loss_head), (Values{0, 4, -1}));
}

TEST(PathWeights, OfTheScalesOfCapture) {
  const std::vector<double> scales{1, 0.75, 0.5, 0.25};
  EXPECT_EQ(path_weights(scales), (std::vector<double>{0.125, 0.25, 0.25, 0.375}));
}

TEST(PathWeights, DoNotDependOnTheOrder) {
  const std::vector<double> scales{0.5, 0, 1, 0.1};
  EXPECT_EQ(path_weights(scales), (std::vector<double>{0.45, 0.05, 0.25, 0.25}));
  EXPECT_EQ(path_weights(std::vector<double>{1}), (std::vector<double>{1}));
  EXPECT_EQ(path_weights(std::vector<double>{0.3}), (std::vector<double>{1}));
  EXPECT_TRUE(path_weights({}).empty());
}

/// The integral over [0, 1] of the line through (scale, value), constant beyond its ends, by many small steps.
double integral(const std::vector<double>& scales, const std::vector<double>& values) {
  constexpr int kSteps = 200000;
  double sum = 0;
  for (int i = 0; i < kSteps; ++i) {
    const double at = (i + 0.5) / kSteps;
    std::size_t above = 0;
    while (above < scales.size() && scales[above] < at) ++above;
    if (above == 0 || above == scales.size()) {
      sum += values[above == 0 ? 0 : above - 1];
    } else {
      const double part = (at - scales[above - 1]) / (scales[above] - scales[above - 1]);
      sum += (1 - part) * values[above - 1] + part * values[above];
    }
  }
  return sum / kSteps;
}

TEST(PathMean, IsTheIntegralOfTheLineThroughTheGradients) {
  const std::vector<double> scales{0.1, 0.35, 0.8, 0.9};
  const std::vector<float> values{1, -7, 2, 0, 5, 3, -1, 10};  // [A, 2]
  const std::vector<float> mean = path_mean(scales, values);
  ASSERT_EQ(mean.size(), 2u);
  constexpr double kStepError = 1e-4;  // of integral()
  for (std::size_t i = 0; i < 2; ++i) {
    const std::vector<double> own{values[i], values[2 + i], values[4 + i], values[6 + i]};
    EXPECT_NEAR(mean[i], integral(scales, own), kStepError);
  }
  EXPECT_TRUE(path_mean({}, {}).empty());
}

// What the sum over the channels of -<mean gradient, 0 - o> claims: the fall of a function whose gradient is a straight
// line in the scale between the points, here F = (sum of o)^2 / 2 below a quarter of which the gradient is constant.
TEST(PathMean, GivesTheFallOfAQuadraticFunctionButBelowTheLeastScale) {
  const std::vector<double> scales{1, 0.75, 0.5, 0.25};
  const std::vector<double> o{3, -1};
  std::vector<float> gradients;
  for (const double scale : scales)
    for (std::size_t d = 0; d < 2; ++d) gradients.push_back(static_cast<float>(scale * (o[0] + o[1])));
  const std::vector<float> mean = path_mean(scales, gradients);
  const double predicted = mean[0] * o[0] + mean[1] * o[1], fall = 2, below = 2 * 2 * 0.25 * 0.25 / 2;
  EXPECT_DOUBLE_EQ(predicted, fall + below);
}

}  // namespace
}  // namespace attest::test
