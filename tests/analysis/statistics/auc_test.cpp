// AUC against all pairs, its bootstrap against a plain loop, and planted truths.
#include "analysis/statistics/auc.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <vector>

#include "analysis/statistics/quantile.h"

namespace attest {
namespace {

using Outcomes = std::vector<ScoredOutcome>;

/// The definition: every pair of a failure and a success of one stratum.
double auc_of_all_pairs(const Outcomes& outcomes) {
  double won = 0, pairs = 0;
  for (const ScoredOutcome& failure : outcomes)
    for (const ScoredOutcome& success : outcomes) {
      if (!failure.failed || success.failed || failure.stratum != success.stratum) continue;
      ++pairs;
      won += failure.score > success.score ? 1 : failure.score == success.score ? 0.5 : 0;
    }
  return won / pairs;
}

/// Draws clusters as copies of their outcomes.
Auc plain_bootstrap(const Outcomes& outcomes, const BootstrapOptions& options) {
  std::map<std::size_t, Outcomes> clusters;
  for (const ScoredOutcome& outcome : outcomes) clusters[outcome.cluster].push_back(outcome);
  std::vector<Outcomes> list;
  for (auto& [cluster, of_cluster] : clusters) list.push_back(of_cluster);
  std::mt19937_64 random(options.seed);
  std::vector<double> draws;
  for (int r = 0; r < options.resamples; ++r) {
    Outcomes drawn;
    for (std::size_t i = 0; i < list.size(); ++i) {
      const Outcomes& one = list[random() % list.size()];
      drawn.insert(drawn.end(), one.begin(), one.end());
    }
    if (const double auc = auc_of_all_pairs(drawn); !std::isnan(auc)) draws.push_back(auc);
  }
  const double tail = (1 - options.confidence) / 2;
  return {auc_of_all_pairs(outcomes), quantile(draws, tail), quantile(draws, 1 - tail), list.size()};
}

/// `separation` moves the scores of failures up; scores have `ties` different values (0: no ties).
Outcomes random_outcomes(std::uint64_t seed, std::size_t clusters, std::size_t each, std::size_t strata,
                         double separation, int ties = 0) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  Outcomes outcomes;
  for (std::size_t c = 0; c < clusters; ++c)
    for (std::size_t i = 0; i < each; ++i) {
      ScoredOutcome outcome{.failed = random() % 3 == 0, .cluster = 5 * c + 2, .stratum = random() % strata};
      outcome.score = normal(random) + (outcome.failed ? separation : 0);
      if (ties > 0) outcome.score = std::floor(outcome.score * ties);
      outcomes.push_back(outcome);
    }
  std::ranges::shuffle(outcomes, random);
  return outcomes;
}

TEST(Auc, IsTheShareOfAllPairs) {
  for (std::uint64_t seed = 0; seed < 20; ++seed)
    for (const std::size_t strata : {1U, 4U})
      for (const int ties : {0, 2}) {
        const Outcomes outcomes = random_outcomes(seed, 9, 7, strata, 0.8, ties);
        EXPECT_NEAR(auc_of(outcomes), auc_of_all_pairs(outcomes), 1e-14) << seed << " " << strata << " " << ties;
      }
}

TEST(Auc, TheIntervalIsThatOfAPlainLoop) {
  const BootstrapOptions options{.resamples = 200};
  for (const std::size_t strata : {1U, 3U}) {
    const Outcomes outcomes = random_outcomes(7, 12, 4, strata, 0.5, 3);
    const Auc fast = auc_interval(outcomes, options), plain = plain_bootstrap(outcomes, options);
    EXPECT_NEAR(fast.value, plain.value, 1e-14);
    EXPECT_NEAR(fast.low, plain.low, 1e-14);
    EXPECT_NEAR(fast.high, plain.high, 1e-14);
    EXPECT_EQ(fast.clusters, plain.clusters);
    EXPECT_LT(fast.low, fast.value - 0.02) << "the case is not trivial";
  }
}

TEST(Auc, InfiniteScoresHaveTheirPlace) {
  const double infinity = std::numeric_limits<double>::infinity();
  const Outcomes outcomes{{infinity, true, 0}, {infinity, false, 1}, {-infinity, false, 2}, {3, true, 3}};
  EXPECT_DOUBLE_EQ(auc_of(outcomes), (0.5 + 1 + 0 + 1) / 4);
}

TEST(Auc, APerfectPredictorHasOne) {
  Outcomes outcomes = random_outcomes(3, 20, 5, 1, 0);
  for (ScoredOutcome& outcome : outcomes) outcome.score = outcome.failed ? 2 + outcome.score / 10 : outcome.score / 10;
  const Auc auc = auc_interval(outcomes);
  EXPECT_EQ(auc.value, 1);
  EXPECT_EQ(auc.low, 1);
  EXPECT_EQ(auc.high, 1);
}

TEST(Auc, TheIntervalOfAnIndependentScoreCoversOneHalf) {
  constexpr int kStudies = 300;
  const BootstrapOptions options{.resamples = 300};
  int covered = 0;
  for (std::uint64_t seed = 0; seed < kStudies; ++seed) {
    const Auc auc = auc_interval(random_outcomes(1000 + seed, 40, 5, 1, 0), options);
    covered += auc.low <= 0.5 && 0.5 <= auc.high ? 1 : 0;
  }
  // Percentile intervals of 40 clusters cover a little less than 95 %; 300 studies have a standard error of 1.4 %.
  EXPECT_GT(covered, 0.90 * kStudies);
  EXPECT_LT(covered, 0.985 * kStudies);
}

TEST(Auc, StrataHideDifferencesBetweenThem) {
  // Selectors fail more often the worse their score is, but within each of them it says nothing.
  std::mt19937_64 random(11);
  Outcomes outcomes;
  for (std::size_t cluster = 0; cluster < 60; ++cluster)
    for (std::size_t stratum = 0; stratum < 4; ++stratum)
      outcomes.push_back({.score = static_cast<double>(stratum) + static_cast<double>(random() % 1000) / 2000,
                          .failed = random() % 4 < stratum,
                          .cluster = cluster,
                          .stratum = stratum});
  const Auc stratified = auc_interval(outcomes);
  for (ScoredOutcome& outcome : outcomes) outcome.stratum = 0;
  const Auc pooled = auc_interval(outcomes);
  EXPECT_GT(pooled.low, 0.75);
  EXPECT_LT(stratified.low, 0.5);
  EXPECT_GT(stratified.high, 0.5);
  EXPECT_LT(stratified.high, 0.7);
}

TEST(Auc, WithoutPairsThereIsNone) {
  EXPECT_TRUE(std::isnan(auc_of({})));
  const Outcomes apart{{1, true, 0, 0}, {0, false, 0, 1}};
  const Auc auc = auc_interval(apart);
  EXPECT_TRUE(std::isnan(auc.value) && std::isnan(auc.low) && std::isnan(auc.high));
}

}  // namespace
}  // namespace attest
