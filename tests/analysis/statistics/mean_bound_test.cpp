// Tests of a mean of bounded losses against second forms written from the formulas, and on losses that are all 0.
#include "analysis/statistics/mean_bound.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace attest {
namespace {

double p_of(MeanBound bound, const std::vector<double>& losses, double allowed, double alpha = 0.05) {
  return mean_p_value(bound, losses, allowed, alpha, 1);
}

/// The fewest losses of 0 that any test can certify: those that are all 0 with probability alpha at most if losses are
/// 0 or 1 and 1 with probability `allowed`. Bets that keep 1e-9 of the capital reach the border by so much.
std::size_t fewest_zeros(double allowed, double alpha) {
  std::size_t n = 1;
  while (std::pow(1 - allowed, static_cast<double>(n)) > alpha * (1 - 1e-6)) ++n;
  return n;
}

double plain_cdf(int k, int n, double p) {
  long double sum = 0, choose = 1;
  for (int i = 0; i <= std::min(k, n); ++i) {
    sum += choose * std::pow(static_cast<long double>(p), i) * std::pow(1 - static_cast<long double>(p), n - i);
    choose = choose * static_cast<long double>(n - i) / static_cast<long double>(i + 1);
  }
  return static_cast<double>(sum);
}

double plain_hb(const std::vector<double>& losses, double a) {
  const auto n = static_cast<int>(losses.size());
  double sum = 0;
  for (const double x : losses) sum += x;
  const double mean = sum / n, r = std::min(mean, a);
  const double kl = (r == 0 ? 0 : r * std::log(r / a)) + (1 - r) * std::log((1 - r) / (1 - a));
  return std::min(
      {1.0, std::exp(-n * kl), std::exp(1.0) * plain_cdf(static_cast<int>(std::ceil(n * mean - 1e-9)), n, a)});
}

/// `maximum`: the largest bet, until the first loss that is not 0 if `few`. Every estimate from scratch, as the paper
/// defines it.
double plain_wsr(const std::vector<double>& losses, double a, double alpha, double maximum, bool few = false) {
  const auto n = static_cast<double>(losses.size());
  const auto mean_after = [&](std::size_t t) {
    double sum = 0.5;
    for (std::size_t i = 0; i < t; ++i) sum += losses[i];
    return sum / static_cast<double>(t + 1);
  };
  const auto variance_after = [&](std::size_t t) {
    double sum = 0.25;
    for (std::size_t i = 0; i < t; ++i) sum += std::pow(losses[i] - mean_after(i + 1), 2);
    return sum / static_cast<double>(t + 1);
  };
  double capital = 1, largest = 1;
  for (std::size_t t = 0; t < losses.size(); ++t) {
    const bool zeros =
        std::all_of(losses.begin(), losses.begin() + static_cast<std::ptrdiff_t>(t), [](double x) { return x == 0; });
    const double bet =
        few && zeros ? maximum : std::min(maximum, std::sqrt(2 * std::log(1 / alpha) / (n * variance_after(t))));
    capital *= 1 + bet * (a - losses[t]);
    largest = std::max(largest, capital);
  }
  return 1 / largest;
}

std::vector<double> made_losses(std::size_t n, int kind, std::mt19937_64& random) {
  std::uniform_real_distribution<double> uniform;
  std::vector<double> losses(n);
  for (double& x : losses)
    x = kind == 0 ? uniform(random) : kind == 1 ? (uniform(random) < 0.1 ? 1.0 : 0.0) : 0.05 * uniform(random);
  return losses;
}

TEST(MeanBound, HoeffdingBentkusIsItsFormula) {
  std::mt19937_64 random(1);
  for (const std::size_t n : {1, 3, 10, 29, 64, 200})
    for (const double a : {0.01, 0.1, 0.4, 0.9})
      for (int kind = 0; kind < 3; ++kind) {
        const std::vector<double> losses = made_losses(n, kind, random);
        EXPECT_NEAR(p_of(MeanBound::hb, losses, a), plain_hb(losses, a), 1e-10) << n << ' ' << a << ' ' << kind;
      }
}

TEST(MeanBound, BettingIsItsFormula) {
  std::mt19937_64 random(2);
  for (const double alpha : {0.2, 0.05, 0.001})
    for (const std::size_t n : {150})  // enough that the largest bet is the paper's
      for (const double a : {0.1, 0.4, 0.9})
        for (int kind = 0; kind < 3; ++kind) {
          const std::vector<double> losses = made_losses(n, kind, random);
          EXPECT_NEAR(p_of(MeanBound::wsr, losses, a, alpha) / plain_wsr(losses, a, alpha, 1), 1, 1e-9)
              << n << ' ' << a << ' ' << kind;
        }
  // Fewer than twice what losses of 0 need with bets of 1: the largest bet that leaves some capital.
  for (const std::size_t n : {5, 29, 50, 62})
    for (const std::size_t zeros : {0, 3, 20}) {
      std::vector<double> losses = made_losses(n, 2, random);
      for (std::size_t i = 0; i < std::min(n, zeros); ++i) losses[i] = 0;
      const double plain = plain_wsr(losses, 0.1, 0.05, (1 - 1e-9) / 0.9, true);
      EXPECT_NEAR(p_of(MeanBound::wsr, losses, 0.1) / plain, 1, 1e-9) << n << ' ' << zeros;
    }
}

TEST(MeanBound, LossesOfZeroCertifyWithTheFewestThatAreEnough) {
  for (const double alpha : {0.25, 0.1, 0.05, 0.01, 0.001})
    for (const double a : {0.005, 0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 0.99}) {
      const std::size_t fewest = fewest_zeros(a, alpha);
      for (const MeanBound bound : {MeanBound::hb, MeanBound::wsr}) {
        const std::vector<double> enough(fewest, 0.0), missing(fewest - 1, 0.0);
        EXPECT_LE(p_of(bound, enough, a, alpha), alpha * (1 + 1e-12))
            << static_cast<int>(bound) << ' ' << a << ' ' << alpha;
        EXPECT_GT(p_of(bound, missing, a, alpha), alpha * (1 - 1e-6)) << static_cast<int>(bound) << ' ' << a;
      }
    }
  EXPECT_EQ(fewest_zeros(0.1, 0.05), 29u);
}

/// More losses of 0 never undo a certificate, and neither does a larger allowed mean.
TEST(MeanBound, LossesOfZeroCertifyFromThenOn) {
  for (const MeanBound bound : {MeanBound::hb, MeanBound::wsr})
    for (const double a : {0.01, 0.1, 0.3, 0.6, 0.9, 0.999999}) {
      const std::size_t fewest = fewest_zeros(a, 0.05);
      for (std::size_t n = fewest + 1; n < 4 * fewest + 40; ++n)
        EXPECT_LE(p_of(bound, std::vector<double>(n, 0.0), a), 0.05) << static_cast<int>(bound) << ' ' << a << ' ' << n;
    }
}

TEST(MeanBound, LossesAboveTheAllowedMeanNeverCertify) {
  for (const MeanBound bound : {MeanBound::hb, MeanBound::wsr, MeanBound::bootstrap})
    for (const std::size_t n : {1, 2, 29, 300}) {
      EXPECT_GE(p_of(bound, std::vector<double>(n, 1.0), 0.1), 1 - 1e-12) << static_cast<int>(bound);
      EXPECT_GE(p_of(bound, std::vector<double>(n, 0.2), 0.1), 1 - 1e-12) << static_cast<int>(bound);
    }
  EXPECT_EQ(p_of(MeanBound::wsr, {}, 0.1), 1);
  EXPECT_EQ(p_of(MeanBound::hb, {}, 0.1), 1);
  EXPECT_EQ(p_of(MeanBound::bootstrap, {}, 0.1), 1);
}

/// p is the probability of reaching 1/p at most, so that it must be one after any loss.
TEST(MeanBound, PValuesAreProbabilities) {
  std::mt19937_64 random(3);
  for (const MeanBound bound : {MeanBound::hb, MeanBound::wsr, MeanBound::bootstrap})
    for (const std::size_t n : {1, 2, 3, 8, 60})
      for (const double a : {1e-9, 0.001, 0.1, 0.5, 0.9, 1 - 1e-9})
        for (int kind = 0; kind < 3; ++kind) {
          const double p = p_of(bound, made_losses(n, kind, random), a);
          EXPECT_TRUE(p >= 0 && p <= 1) << p << ' ' << static_cast<int>(bound) << ' ' << n << ' ' << a;
        }
}

TEST(MeanBound, BootstrapIsRepeatableAndCountsResamples) {
  const std::vector<double> losses = {0, 0, 0, 0, 0, 0, 0, 1};
  const double p = mean_p_value(MeanBound::bootstrap, losses, 0.13, 0.05, 7);
  EXPECT_EQ(p, mean_p_value(MeanBound::bootstrap, losses, 0.13, 0.05, 7));
  // Two of eight or more of the draws are the 1: 1 - (7/8)^8 - (7/8)^7 = 0.264.
  EXPECT_NEAR(p, 0.2636, 5 * std::sqrt(0.2636 * 0.7364 / 2000));
}

}  // namespace
}  // namespace attest
