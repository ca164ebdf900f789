// Allocation of io against every assignment of small instances.
#include "analysis/validation/io_allocation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

namespace attest {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kRounding = 1e-9;

using Instance = std::vector<std::vector<UnitChoice>>;

/// The smallest loss within the budget, by trying all assignments.
double optimum(const Instance& choices, double budget, std::size_t unit = 0, double io = 0, double loss = 0) {
  if (io > budget + kRounding) return kInfinity;
  if (unit == choices.size()) return loss;
  double best = kInfinity;
  for (const UnitChoice& choice : choices[unit])
    best = std::min(best, optimum(choices, budget, unit + 1, io + choice.io, loss + choice.loss));
  return best;
}

/// The largest saving of loss by one step between choices of a unit: what rounding the relaxation can cost.
double largest_step(const Instance& choices) {
  double maximum = 0;
  for (const auto& own : choices) {
    double minimum = kInfinity, worst = 0;
    for (const UnitChoice& choice : own) {
      minimum = std::min(minimum, choice.loss);
      worst = std::max(worst, choice.loss);
    }
    maximum = std::max(maximum, worst - minimum);
  }
  return maximum;
}

void check(const Instance& choices, double budget) {
  const auto found = allocate_io(choices, budget);
  const double best = optimum(choices, budget);
  ASSERT_EQ(found.has_value(), best < kInfinity) << budget;
  if (!found) return;
  double io = 0, loss = 0;
  for (std::size_t u = 0; u < choices.size(); ++u) {
    io += choices[u].at(found->choice.at(u)).io;
    loss += choices[u].at(found->choice.at(u)).loss;
  }
  EXPECT_LE(io, budget + kRounding);
  EXPECT_NEAR(found->io, io, kRounding);
  EXPECT_NEAR(found->loss, loss, kRounding);
  EXPECT_LE(found->relaxed_loss, best + kRounding);
  EXPECT_GE(loss, best - kRounding);
  EXPECT_LE(loss - found->relaxed_loss, largest_step(choices) + kRounding);
}

TEST(IoAllocation, LiesBetweenTheOptimumAndOneStepAboveItsRelaxation) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> uniform;
  int exact = 0, all = 0;
  for (int trial = 0; trial < 4000; ++trial) {
    Instance choices(2 + random() % 3);
    for (auto& own : choices) {
      own.resize(2 + random() % 4);
      for (UnitChoice& choice : own) {
        // Half of the instances have ties in io and loss.
        choice.io = trial % 2 == 0 ? uniform(random) : static_cast<double>(random() % 4) / 4;
        choice.loss = trial % 2 == 0 ? uniform(random) : static_cast<double>(random() % 4);
      }
    }
    const double budget = uniform(random) * static_cast<double>(choices.size());
    check(choices, budget);
    if (const auto found = allocate_io(choices, budget)) {
      ++all;
      exact += found->loss <= optimum(choices, budget) + kRounding ? 1 : 0;
    }
  }
  std::printf("optimal in %d of %d instances\n", exact, all);
  EXPECT_GT(exact, all * 3 / 4);
}

TEST(IoAllocation, SpendsTheBudgetWhereItSavesMost) {
  // From 0.1 to 0.5: the first saves 10, the second 1.
  const Instance choices = {{{0.1, 10, 0}, {0.5, 0, 1}}, {{0.1, 1, 0}, {0.5, 0, 1}}};
  EXPECT_EQ(allocate_io(choices, 0.6)->choice, (std::vector<std::size_t>{1, 0}));
  EXPECT_EQ(allocate_io(choices, 1.0)->choice, (std::vector<std::size_t>{1, 1}));
  EXPECT_EQ(allocate_io(choices, 0.2)->choice, (std::vector<std::size_t>{0, 0}));
  EXPECT_FALSE(allocate_io(choices, 0.19));
  // Half of the first step: the relaxation mixes.
  EXPECT_NEAR(allocate_io(choices, 0.4)->relaxed_loss, 1 + 5, 1e-9);
}

TEST(IoAllocation, InfiniteLossesAreNotTaken) {
  const Instance choices = {{{0.1, kInfinity, 0}, {0.2, kInfinity, 1}, {0.3, 5, 2}, {1, 0, kDense}},
                            {{0.1, 2, 0}, {0.2, kInfinity, 1}, {1, 0, kDense}}};
  const auto found = allocate_io(choices, 0.5);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->choice, (std::vector<std::size_t>{2, 0}));
  EXPECT_TRUE(std::isfinite(found->loss) && std::isfinite(found->relaxed_loss));
  EXPECT_NEAR(found->loss, 7, 1e-12);
  EXPECT_FALSE(allocate_io(choices, 0.35)) << "only infinite losses read as little";
}

TEST(IoAllocation, ChoicesAreSharesOfAllHeads) {
  const std::vector<Unit> units = {{0, 0, 0, 3}, {0, 1, 3, 1}};
  const UnitLosses losses{2, {0, 0, 0, 0}, {8, 4, 2, 1}, {0.1, 0.2, 0.3, 0.4}};
  const auto choices = unit_choices(losses, units);
  ASSERT_EQ(choices.size(), 2u);
  ASSERT_EQ(choices[0].size(), 3u);
  EXPECT_NEAR(choices[0][1].io, 0.15, 1e-15);
  EXPECT_NEAR(choices[0][1].loss, 3, 1e-15);
  EXPECT_NEAR(choices[1][0].io, 0.075, 1e-15);
  EXPECT_EQ(choices[1][2].setting, kDense);
  EXPECT_EQ(choices[1][2].loss, 0);
  EXPECT_NEAR(choices[0][2].io + choices[1][2].io, 1, 1e-15);
}

}  // namespace
}  // namespace attest
