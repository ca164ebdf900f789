// Binomial tails and intervals against plain sums in long double, and against numbers that are known.
#include "analysis/statistics/binomial.h"

#include <gtest/gtest.h>

#include <cmath>

namespace attest {
namespace {

constexpr double kRelative = 1e-10;  ///< lgamma of numbers up to 1000 is exact to some 1e-12 of the probability
constexpr double kAbsolute = 1e-13;  ///< of a tail that is one minus a sum

/// P(first <= Bin(n, p) <= last), term by term.
long double plain_sum(std::int64_t first, std::int64_t last, std::int64_t n, double p) {
  long double sum = 0;
  for (std::int64_t k = first; k <= last; ++k) {
    long double term = 1;
    std::int64_t rest = n - k;  // factors of 1 - p that are still to be multiplied, mixed in so that nothing overflows
    for (std::int64_t i = 1; i <= k; ++i) {
      term *= static_cast<long double>(n - k + i) / static_cast<long double>(i) * static_cast<long double>(p);
      for (; rest > 0 && term > 1; --rest) term *= 1 - static_cast<long double>(p);
    }
    sum += term * std::pow(1 - static_cast<long double>(p), static_cast<long double>(rest));
  }
  return sum;
}

TEST(Binomial, TailsAreTheSumsOfTheirTerms) {
  for (const std::int64_t n : {1, 2, 7, 29, 59, 299})
    for (const double p : {1e-12, 0.001, 0.01, 0.05, 0.1, 0.3, 0.5, 0.77, 0.9, 0.999})
      for (std::int64_t k = 0; k <= n; k += 1 + n / 13) {
        const double below = static_cast<double>(plain_sum(0, k, n, p)),
                     above = static_cast<double>(plain_sum(k, n, n, p));
        EXPECT_NEAR(binomial_cdf(k, n, p), below, std::min(kAbsolute + kRelative * below, 1e-9))
            << k << ' ' << n << ' ' << p;
        EXPECT_NEAR(binomial_upper_tail(k, n, p), above, kAbsolute + kRelative * above) << k << ' ' << n << ' ' << p;
      }
}

TEST(Binomial, SmallTailsKeepTheirDigits) {
  for (const double p : {0.1, 0.5})
    for (const std::int64_t k : {0, 1, 5, 20}) {
      const double below = static_cast<double>(plain_sum(0, k, 500, p));
      ASSERT_LT(below, 1e-6);
      EXPECT_NEAR(binomial_cdf(k, 500, p) / below, 1, kRelative) << k << ' ' << p;
      const double above = static_cast<double>(plain_sum(500 - k, 500, 500, 1 - p));
      EXPECT_NEAR(binomial_upper_tail(500 - k, 500, 1 - p) / above, 1, 1e-9) << k << ' ' << p;
    }
}

TEST(Binomial, Ends) {
  EXPECT_EQ(binomial_cdf(-1, 5, 0.3), 0);
  EXPECT_EQ(binomial_cdf(5, 5, 0.3), 1);
  EXPECT_EQ(binomial_cdf(9, 5, 0.3), 1);
  EXPECT_EQ(binomial_cdf(0, 0, 0.3), 1);
  EXPECT_EQ(binomial_cdf(0, 5, 0), 1);
  EXPECT_EQ(binomial_cdf(4, 5, 1), 0);
  EXPECT_EQ(binomial_cdf(5, 5, 1), 1);
  EXPECT_EQ(binomial_upper_tail(0, 5, 0.3), 1);
  EXPECT_EQ(binomial_upper_tail(0, 5, 0), 1);
  EXPECT_EQ(binomial_upper_tail(1, 5, 0), 0);
  EXPECT_EQ(binomial_upper_tail(6, 5, 0.3), 0);
  EXPECT_EQ(binomial_upper_tail(5, 5, 1), 1);
}

/// No violation certifies 1 - alpha^(1/n): these are the numbers of the documents.
TEST(Binomial, FewestPromptsWithoutAViolation) {
  const struct {
    double beta;
    std::int64_t n;
  } known[] = {{0.1, 29}, {0.05, 59}, {0.01, 299}};
  for (const auto& [beta, n] : known) {
    EXPECT_LE(binomial_cdf(0, n, beta), 0.05) << beta;
    EXPECT_GT(binomial_cdf(0, n - 1, beta), 0.05) << beta;
    EXPECT_NEAR(share_upper_bound(0, n, 0.95), 1 - std::pow(0.05, 1.0 / static_cast<double>(n)), 1e-14);
  }
  // One and two violations at 10 %: 46 and 61 prompts.
  EXPECT_GT(binomial_cdf(1, 45, 0.1), 0.05);
  EXPECT_LE(binomial_cdf(1, 46, 0.1), 0.05);
  EXPECT_GT(binomial_cdf(2, 60, 0.1), 0.05);
  EXPECT_LE(binomial_cdf(2, 61, 0.1), 0.05);
}

/// Where the probability is a round number, it is so but for rounding; Claim::alpha() has room for that.
TEST(Binomial, ExactBorders) {
  EXPECT_NEAR(binomial_cdf(0, 1, 0.1) / 0.9, 1, 1e-13);
  EXPECT_NEAR(binomial_cdf(0, 3, 0.5) / 0.125, 1, 1e-13);
  EXPECT_NEAR(binomial_cdf(1, 3, 0.5) / 0.5, 1, 1e-13);
  EXPECT_NEAR(binomial_cdf(0, 40, 0.5) * 0x1p40, 1, 1e-13);
  EXPECT_NEAR(binomial_upper_tail(3, 3, 0.25) / 0.015625, 1, 1e-13);
}

/// Each bound is where the tail is the level: what Clopper and Pearson ask for.
TEST(Binomial, IntervalsEndWhereTheTailsReachTheLevel) {
  for (const double confidence : {0.8, 0.95, 0.999})
    for (const std::int64_t n : {1, 5, 30, 300})
      for (std::int64_t k = 0; k <= n; k += 1 + n / 9) {
        const ShareInterval interval = clopper_pearson(k, n, confidence);
        const double level = (1 - confidence) / 2, seen = static_cast<double>(k) / static_cast<double>(n);
        EXPECT_LE(interval.low, seen);
        EXPECT_GE(interval.high, seen);
        if (k == 0) {
          EXPECT_EQ(interval.low, 0);
        } else {
          EXPECT_NEAR(static_cast<double>(plain_sum(k, n, n, interval.low)), level, 1e-10) << k << ' ' << n;
        }
        if (k == n) {
          EXPECT_EQ(interval.high, 1);
        } else {
          EXPECT_NEAR(static_cast<double>(plain_sum(0, k, n, interval.high)), level, 1e-10) << k << ' ' << n;
          EXPECT_NEAR(static_cast<double>(plain_sum(0, k, n, share_upper_bound(k, n, confidence))), 1 - confidence,
                      1e-10);
        }
      }
}

TEST(Binomial, KnownIntervals) {
  // R: binom.test(k, n)$conf.int
  const ShareInterval three = clopper_pearson(3, 30, 0.95), one = clopper_pearson(1, 10, 0.95);
  EXPECT_NEAR(three.low, 0.02111714, 1e-7);
  EXPECT_NEAR(three.high, 0.26528846, 1e-7);
  EXPECT_NEAR(one.low, 0.002528579, 1e-8);
  EXPECT_NEAR(one.high, 0.4450161, 1e-6);
  const ShareInterval none = clopper_pearson(0, 0, 0.95);
  EXPECT_EQ(none.low, 0);
  EXPECT_EQ(none.high, 1);
  EXPECT_EQ(share_upper_bound(0, 0, 0.95), 1);
}

TEST(Binomial, LargeNumbersOfPrompts) {
  EXPECT_NEAR(binomial_cdf(0, 1'000'000, 1e-6), std::exp(1e6 * std::log1p(-1e-6)), 1e-9);
  EXPECT_NEAR(binomial_cdf(500'000, 1'000'000, 0.5), 0.5 + 0.5 * 0.00079788, 1e-6);
  EXPECT_NEAR(binomial_cdf(99'000, 1'000'000, 0.1), 0.000432, 1e-5);  // 3.333 standard deviations below
}

}  // namespace
}  // namespace attest
