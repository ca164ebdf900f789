// The bootstrap interval against the normal approximation, and the cases without an interval.
#include "analysis/statistics/bootstrap.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <random>
#include <vector>

#include "analysis/statistics/quantile.h"

namespace attest {
namespace {

/// Clusters of `cells` cells whose means alternate between centre - 1 and centre + 1.
std::vector<ClusterSum> alternating(std::size_t clusters, std::int64_t cells, double centre) {
  std::vector<ClusterSum> result;
  for (std::size_t i = 0; i < clusters; ++i) {
    const double mean = centre + (i % 2 == 0 ? -1 : 1);
    result.push_back({mean * static_cast<double>(cells), cells});
  }
  return result;
}

TEST(Bootstrap, IsTheNormalIntervalForManyEqualClusters) {
  constexpr std::size_t kClusters = 400;
  const Interval interval = bootstrap_mean(alternating(kClusters, 10, 5), ClusterKind::sample);
  // The mean of 400 draws of +-1 has the standard deviation 1/20. With 2000 resamples the interval is accurate to a few
  // per cent.
  const double half = 1.96 / std::sqrt(static_cast<double>(kClusters));
  EXPECT_DOUBLE_EQ(interval.mean, 5);
  EXPECT_NEAR(interval.low, 5 - half, 0.1 * half);
  EXPECT_NEAR(interval.high, 5 + half, 0.1 * half);
  EXPECT_EQ(interval.clusters, kClusters);
}

TEST(Bootstrap, DrawsClustersNotCells) {
  // A thousand times as many cells in the same number of clusters must not make the interval narrower.
  const Interval few = bootstrap_mean(alternating(20, 1, 0), ClusterKind::sample);
  const Interval many = bootstrap_mean(alternating(20, 1000, 0), ClusterKind::sample);
  EXPECT_DOUBLE_EQ(few.low, many.low);
  EXPECT_DOUBLE_EQ(few.high, many.high);
  EXPECT_LT(few.low, -0.3);
}

TEST(Bootstrap, WeighsClustersByTheirCells) {
  const Interval interval = bootstrap_mean(std::vector<ClusterSum>{{10, 1}, {0, 9}}, ClusterKind::sample);
  EXPECT_DOUBLE_EQ(interval.mean, 1);
  EXPECT_TRUE(std::isnan(interval.low) && std::isnan(interval.high)) << "two clusters have no interval";
}

/// Whether the percentile interval (95 %) of means over clusters of one cell each covers a mean.
bool percentile_covers(const std::vector<ClusterSum>& clusters, int resamples, double mean, std::mt19937_64& random) {
  std::vector<double> means;
  for (int r = 0; r < resamples; ++r) {
    double sum = 0;
    for (std::size_t i = 0; i < clusters.size(); ++i) sum += clusters[random() % clusters.size()].sum;
    means.push_back(sum / static_cast<double>(clusters.size()));
  }
  std::ranges::sort(means);
  return quantile_of_sorted(means, 0.025) <= mean && mean <= quantile_of_sorted(means, 0.975);
}

/// The nine cases of analysis/README.md, whose coverage it gives, and three of the percentile interval, which covers
/// less in all of them.
TEST(Bootstrap, CoversWhatThePageSays) {
  struct Case {
    double sigma;  ///< of the logarithm; 0: normal numbers
    std::size_t clusters;
    double covers;
    std::optional<double> percentile_covers = {};
  };
  constexpr int kTrials = 600, kResamples = 500;  // a quarter of the page's resamples changes less than the trials
  constexpr double kNear = 0.04;                  // three standard errors of a share of 0.88 of these trials
  std::mt19937_64 random(7);
  const auto uniform = [&] { return (static_cast<double>(random() >> 11) + 0.5) * 0x1p-53; };
  const auto normal = [&] { return std::sqrt(-2 * std::log(uniform())) * std::cos(6.283185307179586 * uniform()); };
  for (const Case& one :
       {Case{0, 5, 0.95}, Case{0, 12, 0.95}, Case{0, 30, 0.94}, Case{1, 5, 0.88}, Case{1, 12, 0.90}, Case{1, 30, 0.92},
        Case{1.5, 5, 0.84, 0.59}, Case{1.5, 12, 0.88, 0.70}, Case{1.5, 30, 0.87, 0.77}}) {
    SCOPED_TRACE(testing::Message() << one.sigma << ' ' << one.clusters);
    const double mean = one.sigma == 0 ? 0 : std::exp(one.sigma * one.sigma / 2);
    double share = 0, percentile_share = 0;
    for (int trial = 0; trial < kTrials; ++trial) {
      std::vector<ClusterSum> clusters;
      for (std::size_t i = 0; i < one.clusters; ++i)
        clusters.push_back({one.sigma == 0 ? normal() : std::exp(one.sigma * normal()), 1});
      const Interval interval = bootstrap_mean(clusters, ClusterKind::sample, {.resamples = kResamples});
      share += interval.low <= mean && mean <= interval.high ? 1.0 / kTrials : 0;
      percentile_share += percentile_covers(clusters, kResamples, mean, random) ? 1.0 / kTrials : 0;
    }
    EXPECT_NEAR(share, one.covers, kNear);
    EXPECT_NEAR(percentile_share, one.percentile_covers.value_or(percentile_share), kNear);
    EXPECT_GT(share, percentile_share);
  }
}

TEST(Bootstrap, StaysWithinItsRange) {
  std::vector<ClusterSum> clusters{{0.2, 1}};
  for (int i = 0; i < 5; ++i) clusters.push_back({1, 1});
  EXPECT_GT(bootstrap_mean(clusters, ClusterKind::sample).high, 1);
  EXPECT_EQ(bootstrap_mean(clusters, ClusterKind::sample, {.maximum = 1}).high, 1);
}

TEST(Bootstrap, HasNoIntervalWhereBothInfinitiesMeet) {
  const double infinity = std::numeric_limits<double>::infinity();
  std::vector<ClusterSum> clusters = alternating(30, 3, 2);
  clusters[3].sum = infinity;
  clusters[17].sum = -infinity;
  const Interval interval = bootstrap_mean(clusters, ClusterKind::sample);
  EXPECT_TRUE(std::isnan(interval.mean));
  EXPECT_TRUE(std::isnan(interval.low));
  EXPECT_TRUE(std::isnan(interval.high));
}

TEST(Bootstrap, TheSeedDecides) {
  const std::vector<ClusterSum> clusters = alternating(30, 3, 2);
  const Interval a = bootstrap_mean(clusters, ClusterKind::pair), b = bootstrap_mean(clusters, ClusterKind::pair);
  EXPECT_EQ(a.low, b.low);
  EXPECT_EQ(a.high, b.high);
  EXPECT_EQ(a.kind, ClusterKind::pair);
  const Interval other = bootstrap_mean(clusters, ClusterKind::pair, {.seed = 1});
  EXPECT_NEAR(other.low, a.low, 0.2);
}

TEST(Bootstrap, EmptyClustersDoNotCount) {
  const std::vector<ClusterSum> clusters{{0, 0}, {6, 2}, {0, 0}};
  const Interval interval = bootstrap_mean(clusters, ClusterKind::sample);
  EXPECT_EQ(interval.clusters, 1u);
  EXPECT_DOUBLE_EQ(interval.mean, 3);
  const Interval same = bootstrap_mean(std::vector<ClusterSum>(6, {6, 2}), ClusterKind::sample);
  EXPECT_DOUBLE_EQ(same.low, 3);
  EXPECT_DOUBLE_EQ(same.high, 3);
  const Interval none = bootstrap_mean({}, ClusterKind::sample);
  EXPECT_TRUE(std::isnan(none.mean) && std::isnan(none.low) && std::isnan(none.high));
}

}  // namespace
}  // namespace attest
