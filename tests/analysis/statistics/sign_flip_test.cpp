// The sign-flip test and its interval against plain second forms: every sign vector of every shifted sample.
#include "analysis/statistics/sign_flip.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <random>
#include <vector>

#include "analysis/statistics/holm.h"

namespace attest {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// The share of sign vectors whose sum is at least as large as that of `d` (two-sided: as far from 0).
double plain_p(const std::vector<double>& d, bool two_sided) {
  double observed = 0, size = 0;
  for (const double x : d) {
    observed += x;
    size += std::abs(x);
  }
  const double tie = 1e-13 * size;
  std::size_t hits = 0;
  for (std::size_t mask = 0; mask < std::size_t{1} << d.size(); ++mask) {
    double sum = 0;
    for (std::size_t i = 0; i < d.size(); ++i) sum += (mask >> i & 1U) != 0 ? -d[i] : d[i];
    hits += two_sided ? std::abs(sum) >= std::abs(observed) - tie : sum >= observed - tie;
  }
  return static_cast<double>(hits) / std::ldexp(1.0, static_cast<int>(d.size()));
}

/// The end of the interval by bisection: the smallest shift that the one-sided test at (1 - confidence) / 2 does not
/// reject. The other end is that of -d.
double plain_low(const std::vector<double>& d, double confidence) {
  const auto rejected = [&](double shift) {
    std::vector<double> shifted = d;
    for (double& x : shifted) x -= shift;
    return plain_p(shifted, false) <= (1 - confidence) / 2;
  };
  double low = *std::ranges::min_element(d) - 1, high = *std::ranges::max_element(d) + 1;
  if (!rejected(low)) return -kInfinity;
  for (int step = 0; step < 60; ++step) {
    const double middle = (low + high) / 2;
    (rejected(middle) ? low : high) = middle;
  }
  return high;
}

std::vector<double> negative(std::vector<double> d) {
  for (double& x : d) x = -x;
  return d;
}

std::vector<std::vector<double>> samples() {
  std::vector<std::vector<double>> all{
      {0.5},
      {1, 1, 1, 1, 1, 1},        // the smallest p of six
      {1, -1, 1, -1, 1, -1, 1},  // many ties
      {0, 0, 0, 0, 0, 0, 0, 0},  // nothing but ties
      {0, 0, 0, 0.1, 0.2, 0.3},  // zeros: 0.1 + 0.2 is 0.3 but for rounding
      {0.1, 0.2, -0.3, 0.4, 0.5, 0.6, 0.7, -0.1},
      {1e6, 1e-6, 2e-6, 3e-6, 1e-6, 5e-6, 4e-6},  // one giant
      {-3, -2, -1, -4, -2.5, 0.25, -1.5, -2, -0.5},
  };
  std::mt19937_64 random(7);
  std::normal_distribution<double> normal(0.4, 1);
  for (const std::size_t n : {2, 5, 7, 8, 9, 11}) {
    std::vector<double>& d = all.emplace_back(n);
    for (double& x : d) x = normal(random);
  }
  return all;
}

TEST(SignFlip, CountsEverySignVector) {
  for (const std::vector<double>& d : samples()) {
    const SignFlipResult result = sign_flip_test(d);
    EXPECT_DOUBLE_EQ(result.p, plain_p(d, true)) << testing::PrintToString(d);
    EXPECT_GE(result.p, smallest_sign_flip_p(d.size()));
    EXPECT_DOUBLE_EQ(sign_flip_test(negative(d)).p, result.p) << testing::PrintToString(d);
  }
}

TEST(SignFlip, IntervalInvertsTheTest) {
  for (const std::vector<double>& d : samples())
    for (const double confidence : {0.5, 0.9, 0.95}) {
      const SignFlipResult result = sign_flip_test(d, {.confidence = confidence});
      const double low = plain_low(d, confidence), high = -plain_low(negative(d), confidence);
      const double scale = std::max(std::abs(*std::ranges::max_element(d)), std::abs(*std::ranges::min_element(d)));
      if (std::isinf(low)) {
        EXPECT_EQ(result.low, low) << testing::PrintToString(d);
        EXPECT_EQ(result.high, high) << testing::PrintToString(d);
        continue;
      }
      EXPECT_NEAR(result.low, low, 1e-12 * scale) << testing::PrintToString(d);
      EXPECT_NEAR(result.high, high, 1e-12 * scale) << testing::PrintToString(d);
      EXPECT_EQ(result.low <= 0 && 0 <= result.high, result.p > 1 - confidence) << testing::PrintToString(d);
    }
}

TEST(SignFlip, FewDifferencesBoundNothing) {
  const SignFlipResult five = sign_flip_test(std::vector<double>(5, 1.0));
  EXPECT_EQ(five.p, 2.0 / 32);
  EXPECT_EQ(five.low, -kInfinity);
  EXPECT_EQ(five.high, kInfinity);
  const SignFlipResult six = sign_flip_test(std::vector<double>{1, 2, 3, 4, 5, 6});
  EXPECT_EQ(six.p, 2.0 / 64);
  EXPECT_EQ(six.low, 1);
  EXPECT_EQ(six.high, 6);
  const SignFlipResult none = sign_flip_test({});
  EXPECT_TRUE(std::isnan(none.mean));
  EXPECT_EQ(none.p, 1);
  EXPECT_EQ(smallest_sign_flip_p(0), 1);
  EXPECT_EQ(smallest_sign_flip_p(6), 2.0 / 64);
  EXPECT_EQ(smallest_sign_flip_p(21), 1.0 / 100'001);
}

TEST(SignFlip, DrawsComeNearTheCount) {
  // Of the first 20 differences all vectors are counted; a 21st one of 0 changes neither p nor, but for the subsets'
  // sizes, the interval, and makes the test draw.
  std::mt19937_64 random(3);
  std::normal_distribution<double> normal(0.35, 1);
  std::vector<double> d(20);
  for (double& x : d) x = normal(random);
  const SignFlipResult counted = sign_flip_test(d);
  d.push_back(0);
  const SignFlipResult drawn = sign_flip_test(d), again = sign_flip_test(d), other = sign_flip_test(d, {.seed = 5});
  const double error = 4 * std::sqrt(counted.p * (1 - counted.p) / 1e5);
  EXPECT_GT(counted.p, 0.01);
  EXPECT_NEAR(drawn.p, counted.p, error);
  EXPECT_NEAR(other.p, counted.p, error);
  EXPECT_NE(other.p, drawn.p);
  EXPECT_EQ(again.p, drawn.p);
  EXPECT_EQ(again.low, drawn.low);
  EXPECT_NEAR(drawn.low, counted.low, 0.05);
  EXPECT_NEAR(drawn.high, counted.high, 0.05);
}

TEST(SignFlip, DrawsAreCountedWithTheObservedVector) {
  // No drawn vector of 30 equal differences is as far from 0 as the observed one.
  const SignFlipResult result = sign_flip_test(std::vector<double>(30, 0.1), {.draws = 999});
  EXPECT_DOUBLE_EQ(result.p, 1.0 / 1000);
  EXPECT_NEAR(result.low, 0.1, 1e-15);
  EXPECT_NEAR(result.high, 0.1, 1e-15);
  EXPECT_EQ(sign_flip_test(std::vector<double>(70, 0.0)).p, 1);
}

TEST(SignFlip, DrawnIntervalAgreesWithDrawnTest) {
  std::mt19937_64 random(11);
  std::normal_distribution<double> normal(0, 1);
  int inside = 0;
  for (int sample = 0; sample < 40; ++sample) {
    std::vector<double> d(25 + static_cast<std::size_t>(sample) * 5);
    for (double& x : d) x = normal(random) + 0.2;
    const SignFlipResult result = sign_flip_test(d, {.draws = 2000});
    inside += result.p > 0.05;
    EXPECT_EQ(result.low <= 0 && 0 <= result.high, result.p > 1 - 0.95) << sample;
  }
  EXPECT_GT(inside, 0);
  EXPECT_LT(inside, 40);
}

/// The differences of a family: `rows` metrics of the same prompts, which depend on each other. If nothing changed, the
/// two values of a prompt are interchangeable, however skewed they are.
std::vector<std::vector<double>> family(std::mt19937_64& random, std::size_t rows, std::size_t n, double shift) {
  std::lognormal_distribution<double> skewed(0, 1.5);
  std::vector<std::vector<double>> d(rows, std::vector<double>(n));
  for (std::size_t i = 0; i < n; ++i) {
    const double first = skewed(random), second = skewed(random);
    for (std::vector<double>& row : d) row[i] = second + skewed(random) - first - skewed(random);
  }
  for (double& x : d[0]) x += shift;
  return d;
}

struct Rejections {
  double any = 0, first = 0;
};
Rejections rejections(std::size_t families, std::size_t rows, std::size_t n, double shift) {
  std::mt19937_64 random(2024 + n);
  Rejections share;
  for (std::size_t f = 0; f < families; ++f) {
    std::vector<double> p;
    for (const std::vector<double>& d : family(random, rows, n, shift))
      p.push_back(sign_flip_test(d, {.draws = 999}).p);
    const std::vector<double> adjusted = holm_adjusted(p);
    share.any += *std::ranges::min_element(adjusted) <= 0.05;
    share.first += adjusted[0] <= 0.05;
  }
  share.any /= static_cast<double>(families);
  share.first /= static_cast<double>(families);
  return share;
}

TEST(SignFlip, FamiliesWithoutADifferenceAreRarelyRejected) {
  constexpr std::size_t kFamilies = 1000;
  const double error = 3 * std::sqrt(0.05 * 0.95 / kFamilies);
  for (const std::size_t rows : {1, 12})
    for (const std::size_t n : {6, 10, 25}) {
      const double any = rejections(rows == 1 ? 2 * kFamilies : kFamilies, rows, n, 0).any;
      std::printf("%zu rows of %zu prompts without a difference: any rejected in %.2f %% of the families\n", rows, n,
                  100 * any);
      EXPECT_LE(any, 0.05 + error);
      if (rows == 1) {
        EXPECT_GE(any, 0.02);  // it is no test that rejects nothing: 6 prompts reject 3.1 %
      }
    }
}

TEST(SignFlip, APlantedDifferenceIsFound) {
  for (const std::size_t n : {12, 25}) {
    const Rejections share = rejections(300, 5, n, 30);
    std::printf("%zu prompts, one of 5 rows with a difference: found in %.1f %%\n", n, 100 * share.first);
    EXPECT_GE(share.first, 0.95);
  }
}

}  // namespace
}  // namespace attest
