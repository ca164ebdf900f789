// Ranks and coefficients against their definitions.
#include "kernels/rank/rank_correlation.h"

#include <gtest/gtest.h>

#include "kernels/rank/sort_descending.h"
#include "tests/cases.h"
#include "tests/kernels/plain.h"

namespace attest::test {
namespace {

double plain_pearson(const Row& a, const Row& b) {
  const auto n = static_cast<double>(a.size());
  const double mean_a = std::accumulate(a.begin(), a.end(), 0.0) / n,
               mean_b = std::accumulate(b.begin(), b.end(), 0.0) / n;
  double xy = 0, xx = 0, yy = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    xy += (a[i] - mean_a) * (b[i] - mean_b);
    xx += (a[i] - mean_a) * (a[i] - mean_a);
    yy += (b[i] - mean_b) * (b[i] - mean_b);
  }
  return xy / std::sqrt(xx * yy);
}

Row random_values(std::size_t n, bool ties, Random& random) {
  Row values(n);
  for (double& x : values) x = ties ? static_cast<double>(random.below(6)) : random.normal();
  return values;
}

TEST(AverageRanks, TiesShareTheirMean) {
  Random random(31);
  for (std::size_t n : {1u, 2u, 7u, 150u})
    for (bool ties : {false, true}) {
      const Row values = random_values(n, ties, random);
      std::vector<std::uint32_t> order(n);
      sort_descending(values, order);
      Row ranks(n);
      average_ranks(values, order, ranks);
      EXPECT_EQ(ranks, plain_ranks(values));
    }
}

TEST(AverageRanks, PassOverWhatIsNotCovered) {
  Random random(32);
  const Row values = random_values(150, true, random);
  std::vector<std::uint32_t> order(values.size());
  sort_descending(values, order);
  for (std::size_t covered : {1u, 2u, 100u, 149u}) {
    Row ranks(covered);
    average_ranks(values, order, ranks);
    EXPECT_EQ(ranks, plain_ranks(Row(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(covered))));
  }
}

TEST(AverageRanks, EndOnNaN) {
  const Row values{1, std::numeric_limits<double>::quiet_NaN(), 3, 3};
  const std::vector<std::uint32_t> order{1, 2, 3, 0};
  Row ranks(values.size());
  average_ranks(values, order, ranks);
  EXPECT_EQ(ranks, (Row{1, 4, 2.5, 2.5}));
}

TEST(Pearson, AgreesWithItsDefinition) {
  Random random(33);
  for (std::size_t n : {2u, 9u, 300u}) {
    const Row a = random_values(n, false, random), b = random_values(n, false, random);
    EXPECT_NEAR(pearson(a, b), plain_pearson(a, b), 1e-12);
    EXPECT_NEAR(pearson(a, a), 1, 1e-12);
  }
}

TEST(Spearman, IsPearsonOfRanks) {
  Random random(34);
  for (bool ties : {false, true}) {
    const Row a = random_values(200, ties, random), b = random_values(200, ties, random);
    EXPECT_NEAR(spearman(a, b), plain_pearson(plain_ranks(a), plain_ranks(b)), 1e-12);
  }
  EXPECT_NEAR(spearman(Row{1, 2, 3}, Row{1, 10, 1000}), 1, 1e-12);
}

TEST(Correlation, IsNotDefinedForAConstantOrForNothing) {
  const Row constant{2, 2, 2}, other{1, 2, 3}, none, one{4};
  EXPECT_TRUE(std::isnan(pearson(constant, other)));
  EXPECT_TRUE(std::isnan(pearson(other, constant)));
  EXPECT_TRUE(std::isnan(spearman(constant, other)));
  EXPECT_TRUE(std::isnan(pearson(none, none)));
  EXPECT_TRUE(std::isnan(spearman(one, one)));
}

// The mean of equal numbers may have a rounding error. The resulting deviations must not count as variance.
TEST(Correlation, ConstantInputIsDetectedExactly) {
  const Row constant(3, 0.1), other{1, 2, 3};
  EXPECT_TRUE(std::isnan(pearson(constant, other)));
}

}  // namespace
}  // namespace attest::test
