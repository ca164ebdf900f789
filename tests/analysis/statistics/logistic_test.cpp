// Logistic regression against plain gradient descent; separated, constant and badly scaled features.
#include "analysis/statistics/logistic.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace attest {
namespace {

struct Data {
  std::vector<double> features;
  std::vector<std::uint8_t> failed;
};

/// Two features of very different scales; `noise` around the line that separates.
Data random_data(std::uint64_t seed, std::size_t rows, double noise) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  Data data;
  for (std::size_t i = 0; i < rows; ++i) {
    const double a = normal(random), b = normal(random);
    data.features.insert(data.features.end(), {1e-5 * a, 4e4 + 1e3 * b});
    data.failed.push_back(a - 0.5 * b + noise * normal(random) > 0.3 ? 1 : 0);
  }
  return data;
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// On features that are scaled by hand: weights and intercept.
std::vector<double> descend(const Data& data, std::size_t count, double ridge) {
  const std::size_t rows = data.failed.size();
  std::vector<std::vector<double>> scaled(rows, std::vector<double>(count));
  for (std::size_t c = 0; c < count; ++c) {
    double mean = 0, square = 0;
    for (std::size_t i = 0; i < rows; ++i) mean += data.features[i * count + c] / static_cast<double>(rows);
    for (std::size_t i = 0; i < rows; ++i)
      square += std::pow(data.features[i * count + c] - mean, 2) / static_cast<double>(rows);
    for (std::size_t i = 0; i < rows; ++i) scaled[i][c] = (data.features[i * count + c] - mean) / std::sqrt(square);
  }
  std::vector<double> weights(count + 1);
  for (int step = 0; step < 200000; ++step) {
    std::vector<double> gradient(count + 1);
    for (std::size_t c = 0; c < count; ++c) gradient[c] = ridge * weights[c];
    for (std::size_t i = 0; i < rows; ++i) {
      double logit = weights[count];
      for (std::size_t c = 0; c < count; ++c) logit += weights[c] * scaled[i][c];
      const double error = sigmoid(logit) - data.failed[i];
      for (std::size_t c = 0; c < count; ++c) gradient[c] += error * scaled[i][c];
      gradient[count] += error;
    }
    for (std::size_t c = 0; c <= count; ++c) weights[c] -= 0.5 / static_cast<double>(rows) * gradient[c];
  }
  return weights;
}

TEST(Logistic, IsTheMinimumThatDescentFinds) {
  const Data data = random_data(1, 60, 1);
  for (const double ridge : {0.3, 3.0}) {
    const LogisticModel model = fit_logistic(data.features, 2, data.failed, ridge);
    const std::vector<double> plain = descend(data, 2, ridge);
    EXPECT_NEAR(model.weights[0], plain[0], 1e-6);
    EXPECT_NEAR(model.weights[1], plain[1], 1e-6);
    EXPECT_NEAR(model.intercept, plain[2], 1e-6);
    EXPECT_GT(std::abs(model.weights[0]), 0.5) << "the case is not trivial";
  }
}

TEST(Logistic, SeparatedOutcomesHaveFiniteWeights) {
  const Data data = random_data(2, 200, 0);
  const LogisticModel model = fit_logistic(data.features, 2, data.failed);
  int right = 0;
  for (std::size_t i = 0; i < data.failed.size(); ++i) {
    const double chance = model.probability(std::span(data.features).subspan(2 * i, 2));
    ASSERT_TRUE(chance >= 0 && chance <= 1);
    right += (chance > 0.5) == (data.failed[i] != 0) ? 1 : 0;
  }
  EXPECT_GE(right, 198);
  for (const double weight : model.weights) EXPECT_TRUE(std::isfinite(weight));
}

TEST(Logistic, AConstantFeatureSaysNothing) {
  Data data = random_data(3, 80, 1);
  for (std::size_t i = 0; i < data.failed.size(); ++i) data.features[2 * i + 1] = 7;
  const LogisticModel model = fit_logistic(data.features, 2, data.failed);
  EXPECT_NEAR(model.weights[1], 0, 1e-9);
  EXPECT_TRUE(std::isfinite(model.probability(std::vector<double>{0, 7})));
}

TEST(Logistic, WithoutSignalItIsTheShareOfFailures) {
  const std::vector<double> features{1, 1, 1, 1, 1};
  const std::vector<std::uint8_t> failed{1, 0, 0, 0, 0};
  EXPECT_NEAR(fit_logistic(features, 1, failed).probability(std::vector<double>{1}), 0.2, 1e-6);
}

}  // namespace
}  // namespace attest
