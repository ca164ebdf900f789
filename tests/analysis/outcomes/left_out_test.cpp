// Thresholds learnt on other selectors and models, by hand, and combinations learnt without what they are judged by.
#include "analysis/outcomes/left_out.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>

#include "analysis/outcomes/combination.h"
#include "tests/analysis/outcomes/made_runs.h"

namespace attest {
namespace {

using test::made_runs;

/// The value at or below which that share of the failures of the counted runs lies, found by trying every value.
template <class Counts>
double plain_threshold(const OutcomeRuns& all, double share, Counts counts) {
  double best = std::numeric_limits<double>::infinity();
  double failures = 0;
  for (const OutcomeRun& run : all.runs) failures += counts(run) && run.failed ? 1 : 0;
  for (const OutcomeRun& candidate : all.runs) {
    if (!counts(candidate)) continue;
    double caught = 0;
    for (const OutcomeRun& run : all.runs)
      caught += counts(run) && run.failed && run.values[0] <= candidate.values[0] ? 1 : 0;
    if (caught >= share * failures - 1e-9) best = std::min(best, candidate.values[0]);
  }
  return best;
}

TEST(LeftOut, IsWhatAPlainLoopFinds) {
  const OutcomeRuns all = made_runs(4, 25, 3, 0.4, 0.2, "span_recall.min", 2);
  const std::vector<std::size_t> fold = prompt_folds(all.prompts.size());
  for (const LeftOutKind kind : {LeftOutKind::selector, LeftOutKind::model, LeftOutKind::both}) {
    const std::vector<LeftOutPart> parts = leave_out(all, 0, kind);
    ASSERT_EQ(parts.size(), kind == LeftOutKind::selector ? 4U : kind == LeftOutKind::model ? 3U : 7U);
    std::int64_t caught = 0, false_alarms = 0;
    for (std::size_t part = 0; part + 1 < parts.size(); ++part) {
      const std::size_t selector = part % 3, model = kind == LeftOutKind::model ? part : part / 3;
      const auto is_own = [&](const OutcomeRun& run) {
        return (kind == LeftOutKind::model || run.selector == selector) &&
               (kind == LeftOutKind::selector || run.model == model);
      };
      const auto is_other = [&](const OutcomeRun& run) {
        return (kind == LeftOutKind::model || run.selector != selector) &&
               (kind == LeftOutKind::selector || run.model != model);
      };
      for (std::size_t g = 0; g < kCatch.size(); ++g) {
        AlarmCounts counts;
        for (std::size_t f = 0; f < kFolds; ++f) {
          const double threshold = plain_threshold(
              all, kCatch[g], [&](const OutcomeRun& run) { return is_other(run) && fold[run.prompt] != f; });
          for (const OutcomeRun& run : all.runs) {
            if (!is_own(run) || fold[run.prompt] != f) continue;
            ++(run.failed ? counts.failures : counts.successes);
            if (run.values[0] <= threshold) ++(run.failed ? counts.caught : counts.false_alarms);
          }
        }
        EXPECT_EQ(parts[part].alarms[g].caught, counts.caught);
        EXPECT_EQ(parts[part].alarms[g].false_alarms, counts.false_alarms);
        EXPECT_EQ(parts[part].alarms[g].failures, counts.failures);
        EXPECT_EQ(parts[part].alarms[g].successes, counts.successes);
        caught += g == 0 ? counts.caught : 0;
        false_alarms += g == 0 ? counts.false_alarms : 0;
      }
    }
    EXPECT_EQ(parts.back().part, "");
    EXPECT_EQ(parts.back().alarms[0].caught, caught);
    EXPECT_EQ(parts.back().alarms[0].false_alarms, false_alarms);
    EXPECT_EQ(parts.back().counts.failures + parts.back().counts.successes, static_cast<std::int64_t>(all.runs.size()));
  }
  EXPECT_EQ(leave_out(all, 0, LeftOutKind::both)[4].part, "s1 on m1");
  for (const LeftOutKind kind : {LeftOutKind::model, LeftOutKind::both})
    EXPECT_TRUE(leave_out(made_runs(4, 25, 3, 0.4, 0.2), 0, kind).empty()) << "one model";
}

TEST(LeftOut, TooFewFailuresElsewhereTeachNothing) {
  OutcomeRuns all = made_runs(6, 30, 2, 0.4, 0);
  for (OutcomeRun& run : all.runs)
    if (run.selector == 1) run.failed = false;  // selector 0 alone fails
  const std::vector<LeftOutPart> parts = leave_out(all, 0, LeftOutKind::selector);
  EXPECT_TRUE(std::isnan(parts[0].thresholds[0]));
  EXPECT_EQ(parts[0].alarms[0].failures, 0);
  EXPECT_FALSE(std::isnan(parts[0].auc.value)) << "its own order needs nothing learnt";
  EXPECT_FALSE(std::isnan(parts[1].thresholds[0]));
  EXPECT_TRUE(std::isnan(parts[1].auc.value)) << "no failure of its own";
}

/// Two noisy predictors of one hidden value, which each alone tell less than both.
OutcomeRuns with_two_predictors(std::uint64_t seed) {
  OutcomeRuns all = made_runs(seed, 60, 3, 0.4, 0, "lse_error.max");
  all.predictors.push_back({.name = "recall_layer.min", .high_fails = false});
  std::mt19937_64 random(seed + 1);
  std::normal_distribution<double> normal;
  for (OutcomeRun& run : all.runs) {
    const double hidden = run.values[0];
    run.values = {hidden + 0.3 * normal(random), hidden + 0.3 * normal(random)};
  }
  return all;
}

std::vector<double> column(const OutcomeRuns& all, std::size_t predictor) {
  std::vector<double> values;
  for (const OutcomeRun& run : all.runs) values.push_back(run.values[predictor]);
  return values;
}

TEST(Combination, IsBetterThanItsParts) {
  OutcomeRuns all = with_two_predictors(8);
  add_combinations(all);
  ASSERT_EQ(all.predictors.size(), 3U);
  EXPECT_EQ(all.predictors[2].name, "combination");
  std::vector<std::size_t> runs(all.runs.size());
  for (std::size_t r = 0; r < runs.size(); ++r) runs[r] = r;
  const double both = auc_of(scored(all, 2, runs));
  EXPECT_GT(both, auc_of(scored(all, 0, runs)) + 0.02);
  EXPECT_GT(both, auc_of(scored(all, 1, runs)) + 0.02);
  const std::vector<LeftOutPart> parts = leave_out(all, 2, LeftOutKind::selector);
  EXPECT_NEAR(parts.back().auc.value, both, 0.02);
}

TEST(Combination, ARunIsNotPredictedFromItsOwnPrompt) {
  OutcomeRuns plain = with_two_predictors(9), turned = plain;
  for (OutcomeRun& run : turned.runs)
    if (run.prompt == 7) run.failed = !run.failed;
  add_combinations(plain);
  add_combinations(turned);
  const std::vector<double> before = column(plain, 2), after = column(turned, 2);
  int others = 0;
  for (std::size_t r = 0; r < before.size(); ++r) {
    if (plain.runs[r].prompt == 7)
      EXPECT_EQ(before[r], after[r]);
    else
      others += before[r] != after[r] ? 1 : 0;
  }
  EXPECT_GT(others, static_cast<int>(before.size()) / 2) << "its outcomes teach the others";
}

TEST(Combination, ALeftOutSelectorDoesNotTeach) {
  OutcomeRuns plain = with_two_predictors(10);
  plain.predictors.push_back({.name = "combination"});
  for (OutcomeRun& run : plain.runs) run.values.push_back(0);
  OutcomeRuns turned = plain;
  for (OutcomeRun& run : turned.runs)
    if (run.selector == 1) run.failed = !run.failed;
  const LeftOutPart before = leave_out(plain, 2, LeftOutKind::selector)[1],
                    after = leave_out(turned, 2, LeftOutKind::selector)[1];
  EXPECT_EQ(before.thresholds, after.thresholds);
  EXPECT_NEAR(before.auc.value, 1 - after.auc.value, 1e-12) << "the same scores, the outcomes turned";
}

TEST(Combination, AnUndefinedPredictorLeavesTheRunOut) {
  OutcomeRuns all = with_two_predictors(11);
  all.runs[3].values[1] = std::nan("");
  all.runs[4].values[0] = -std::numeric_limits<double>::infinity();
  add_combinations(all);
  EXPECT_TRUE(std::isnan(all.runs[3].values[2]));
  EXPECT_TRUE(std::isfinite(all.runs[4].values[2]));
  OutcomeRuns one = made_runs(1, 20, 2, 0.4, 0, "lse_error.max");
  add_combinations(one);
  EXPECT_EQ(one.predictors.size(), 1U) << "nothing to combine";
}

/// Answers that have nothing to do with the cells: a prompt fails under every selector or under none, and the cells are
/// a fingerprint of the prompt. What learns from the prompts that judge it finds a relation all the same.
TEST(LeftOut, FindsNothingWhereThereIsNothing) {
  constexpr int kStudies = 40;
  double sum = 0;
  for (int study = 0; study < kStudies; ++study) {
    OutcomeRuns all = made_runs(100 + static_cast<std::uint64_t>(study), 40, 4, 0.4, 0, "lse_error.max");
    all.predictors.push_back({.name = "recall_layer.min", .high_fails = false});
    all.predictors.push_back({.name = "combination"});
    std::mt19937_64 random(static_cast<std::uint64_t>(study));
    std::uniform_real_distribution<double> uniform;
    std::vector<std::array<double, 3>> prompts(all.prompts.size());
    for (auto& prompt : prompts) prompt = {uniform(random), uniform(random), uniform(random)};
    for (OutcomeRun& run : all.runs) {
      run.failed = prompts[run.prompt][0] < 0.4;
      run.values = {prompts[run.prompt][1], prompts[run.prompt][2], 0};
    }
    sum += leave_out(all, 2, LeftOutKind::selector).back().auc.value;
  }
  EXPECT_LT(sum / kStudies, 0.52);
}

}  // namespace
}  // namespace attest
