// Sequential tests: their level at every time, by simulation, and that they see what is there.
#include "analysis/statistics/martingale.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace attest {
namespace {

constexpr int kTrials = 2000, kPrompts = 200;
const double kLogNeeded = std::log(20);  // of a level of 5 %
/// 5 % of the trials and four standard errors.
const double kMax = 0.05 + 4 * std::sqrt(0.05 * 0.95 / kTrials);

double uniform(std::mt19937_64& random) { return (static_cast<double>(random() >> 11) + 0.5) * 0x1p-53; }

/// The share of trials in which the capital passes 1 / alpha at any time.
template <class Play>
double alarms(Play play) {
  int count = 0;
  for (int trial = 0; trial < kTrials; ++trial) count += play(static_cast<std::uint64_t>(trial)) >= kLogNeeded ? 1 : 0;
  return static_cast<double>(count) / kTrials;
}

double violating(std::uint64_t trial, double beta, double share) {
  std::mt19937_64 random(trial);
  LossMartingale martingale(beta);
  for (int i = 0; i < kPrompts; ++i) martingale.add(uniform(random) < share ? 1 : 0);
  return martingale.log_largest();
}

TEST(LossMartingale, HoldsItsLevelAtEveryTime) {
  for (const double beta : {0.02, 0.1, 0.3, 0.7}) {
    EXPECT_LE(alarms([=](std::uint64_t t) { return violating(t, beta, beta); }), kMax) << beta;
    EXPECT_GE(alarms([=](std::uint64_t t) { return violating(t, beta, beta); }), 0.002) << "it bets at all";
  }
  // Skewed losses whose mean is allowed exactly: a few of 1, many small.
  const auto skewed = [](std::uint64_t trial) {
    std::mt19937_64 random(trial);
    LossMartingale martingale(0.05 + 0.95 * 0.01);
    for (int i = 0; i < kPrompts; ++i) martingale.add(uniform(random) < 0.05 ? 1 : 0.01);
    return martingale.log_largest();
  };
  EXPECT_LE(alarms(skewed), kMax);
}

TEST(LossMartingale, SeesMoreViolations) {
  EXPECT_GE(alarms([](std::uint64_t t) { return violating(t, 0.1, 0.25); }), 0.95);
  EXPECT_GE(alarms([](std::uint64_t t) { return violating(t, 0.1, 0.6); }), 0.999);
  LossMartingale martingale(0.1);
  for (int i = 0; i < 3; ++i) martingale.add(1);
  EXPECT_GE(martingale.log_capital(), kLogNeeded) << "three of three where one of ten is allowed";
}

/// `steps`: the scores are whole numbers below it, so that many are equal; 0: none are.
double drifting(std::uint64_t trial, double shift, int steps) {
  std::mt19937_64 random(trial);
  const auto score = [&](double by) {
    return steps == 0 ? uniform(random) + by : std::floor((uniform(random) + by) * steps);
  };
  std::vector<double> before;
  for (int i = 0; i < 60; ++i) before.push_back(score(0));
  DriftMartingale martingale(before, trial);
  for (int i = 0; i < kPrompts; ++i) martingale.add(score(shift));
  return martingale.log_largest();
}

TEST(DriftMartingale, HoldsItsLevelAtEveryTime) {
  for (const int steps : {0, 1, 2, 10})
    EXPECT_LE(alarms([=](std::uint64_t t) { return drifting(t, 0, steps); }), kMax) << steps;
}

/// The capital by the ranks alone, which are all that a score has where none are equal.
TEST(DriftMartingale, IsTheMeanOverPValuesWithinARank) {
  const std::vector<double> before{0.5, 0.2, 0.9, 0.4}, scores{0.1, 0.95, 0.3, 0.05};
  DriftMartingale martingale(before, 1), other(before, 7);
  std::vector<double> seen = before;
  std::vector<double> grow(9, 1), shrink(9, 1);
  for (const double score : scores) {
    martingale.add(score);
    other.add(score);
    double larger = 0;
    for (const double x : seen) larger += x > score ? 1 : 0;
    seen.push_back(score);
    const auto n = static_cast<double>(seen.size());
    for (std::size_t i = 0; i < 9; ++i) {
      const double power = static_cast<double>(i + 1) / 10;
      constexpr int kSteps = 20'000;
      double up = 0, down = 0;
      for (int step = 0; step < kSteps; ++step) {
        // Steps that are fine where a bet is infinite: at the distance t^20 from the end of the part, of width 20 t^19.
        const double t = (step + 0.5) / kSteps, from_end = std::pow(t, 20), width = 20 * std::pow(t, 19) / kSteps;
        up += power * std::pow((larger + from_end) / n, power - 1) * width;
        down += power * std::pow((n - 1 - larger + from_end) / n, power - 1) * width;
      }
      grow[i] *= up;
      shrink[i] *= down;
    }
  }
  double capital = 0;
  for (std::size_t i = 0; i < 9; ++i) capital += (grow[i] + shrink[i]) / 18;
  EXPECT_NEAR(martingale.log_capital(), std::log(capital), 1e-6);
  EXPECT_EQ(martingale.log_capital(), other.log_capital()) << "the seed is of equal scores";
}

/// Three scores beyond four have a chance of 1 in 210; that is what their evidence may be, whatever is drawn.
TEST(DriftMartingale, FewScoresAreLittleEvidence) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    DriftMartingale martingale({0.5, 0.2, 0.9, 0.4}, seed), equal({0, 0, 0, 0}, seed);
    for (const double score : {0.01, 0.02, 0.03}) {
      martingale.add(score);
      equal.add(0);
    }
    EXPECT_LE(martingale.log_largest(), std::log(210.0));
    EXPECT_LE(equal.log_largest(), std::log(210.0));
  }
}

TEST(DriftMartingale, SeesOtherScores) {
  for (const double shift : {0.5, -0.5}) {
    EXPECT_GE(alarms([=](std::uint64_t t) { return drifting(t, shift, 0); }), 0.95) << shift;
    std::mt19937_64 random(1);
    std::vector<double> before;
    for (int i = 0; i < 60; ++i) before.push_back(uniform(random));
    DriftMartingale martingale(before, 1);
    for (int i = 0; i < 60; ++i) martingale.add(uniform(random) + shift);
    EXPECT_EQ(martingale.grows(), shift > 0);
  }
}

}  // namespace
}  // namespace attest
