// Alarms against counting by hand, thresholds against trying every score.
#include "analysis/statistics/alarm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace attest {
namespace {

using Outcomes = std::vector<ScoredOutcome>;

Outcomes random_outcomes(std::uint64_t seed, std::size_t count) {
  std::mt19937_64 random(seed);
  Outcomes outcomes;
  for (std::size_t i = 0; i < count; ++i) {
    const bool failed = random() % 3 == 0;
    outcomes.push_back({.score = static_cast<double>(random() % 20) + (failed ? 6 : 0), .failed = failed});
  }
  return outcomes;
}

double caught_at(const Outcomes& outcomes, double threshold) {
  double caught = 0, failures = 0;
  for (const ScoredOutcome& outcome : outcomes) {
    failures += outcome.failed ? 1 : 0;
    caught += outcome.failed && outcome.score >= threshold ? 1 : 0;
  }
  return caught / failures;
}

TEST(Alarm, AThresholdIsTheHighestThatCatchesEnough) {
  for (std::uint64_t seed = 0; seed < 50; ++seed)
    for (const double share : {0.5, 0.95, 0.99, 1.0}) {
      const Outcomes outcomes = random_outcomes(seed, 30 + seed);
      double best = -std::numeric_limits<double>::infinity();
      for (const ScoredOutcome& outcome : outcomes)
        if (caught_at(outcomes, outcome.score) >= share - 1e-9) best = std::max(best, outcome.score);
      EXPECT_EQ(threshold_that_catches(outcomes, share), best) << seed << " " << share;
    }
}

TEST(Alarm, NineteenOfTwentyAre95PerCent) {
  Outcomes outcomes;
  for (int i = 0; i < 20; ++i) outcomes.push_back({.score = static_cast<double>(i), .failed = true});
  EXPECT_EQ(threshold_that_catches(outcomes, 0.95), 1);
  EXPECT_EQ(threshold_that_catches(outcomes, 0.951), 0);
  EXPECT_TRUE(std::isnan(threshold_that_catches(Outcomes{{.score = 1}}, 0.95)));
}

TEST(Alarm, AtTheThresholdThereIsAnAlarm) {
  const Outcomes outcomes{{1, true}, {2, true}, {2, false}, {3, false}, {0, false}};
  AlarmCounts counts = alarms_at(outcomes, 2);
  EXPECT_EQ(counts.failures, 2);
  EXPECT_EQ(counts.caught, 1);
  EXPECT_EQ(counts.successes, 3);
  EXPECT_EQ(counts.false_alarms, 2);
  counts += alarms_at(outcomes, 0);
  EXPECT_DOUBLE_EQ(counts.caught_share(), 3.0 / 4);
  EXPECT_DOUBLE_EQ(counts.false_alarm_share(), 5.0 / 6);
  EXPECT_TRUE(std::isnan(AlarmCounts{}.caught_share()) && std::isnan(AlarmCounts{}.false_alarm_share()));
}

TEST(Alarm, TheAreaUnderTheCurveIsTheAuc) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    const Outcomes outcomes = random_outcomes(seed, 60);
    const std::vector<RocPoint> curve = roc_curve(outcomes);
    ASSERT_GE(curve.size(), 2U);
    double area = 0;
    for (std::size_t i = 1; i < curve.size(); ++i) {
      area += (curve[i].false_alarms - curve[i - 1].false_alarms) * (curve[i].caught + curve[i - 1].caught) / 2;
      const AlarmCounts counts = alarms_at(outcomes, curve[i].threshold);
      EXPECT_EQ(counts.caught_share(), curve[i].caught);
      EXPECT_EQ(counts.false_alarm_share(), curve[i].false_alarms);
    }
    EXPECT_NEAR(area, auc_of(outcomes), 1e-12);
    EXPECT_EQ(curve.front().caught, 0);
    EXPECT_EQ(curve.back().caught, 1);
    EXPECT_EQ(curve.back().false_alarms, 1);
  }
  EXPECT_TRUE(roc_curve(Outcomes{{1, true}}).empty());
}

TEST(Alarm, APerfectCurveHasThreePoints) {
  Outcomes outcomes;
  for (int i = 0; i < 30; ++i) outcomes.push_back({.score = static_cast<double>(i), .failed = i >= 12});
  EXPECT_EQ(roc_curve(outcomes).size(), 3U);
}

}  // namespace
}  // namespace attest
