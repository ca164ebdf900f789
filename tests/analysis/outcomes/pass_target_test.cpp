// Targets that follow from outcomes: counts by hand, the fixed sequence, and how often a false guarantee is certified.
#include "analysis/outcomes/pass_target.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

namespace attest {
namespace {

TEST(PassTarget, CountsPromptsNotRuns) {
  OutcomeRuns all;
  all.models = all.labels = all.selectors = {"x"};
  all.prompts = {"p", "q", "r", "s"};
  all.predictors = {{.name = "span_recall.min", .high_fails = false}};
  const auto add = [&](std::size_t prompt, double value, bool failed) {
    all.runs.push_back({.prompt = prompt, .failed = failed, .values = {value}});
  };
  add(0, 0.995, false);
  add(0, 0.95, true);
  add(0, 0.95, true);
  add(1, 0.99, false);
  add(2, 0.2, true);
  add(3, std::nan(""), true);
  const std::vector<Target> grid{parse_target("span_recall.min>=0.99"), parse_target("span_recall.min>=0.9"),
                                 parse_target("span_recall.min>=0")};
  const std::vector<PassCounts> counts = pass_counts(all, 0, grid);
  const auto numbers = [](const PassCounts& c) {
    return std::vector<std::int64_t>{c.runs, c.failed_runs, c.prompts, c.failed_prompts};
  };
  EXPECT_EQ(numbers(counts[0]), (std::vector<std::int64_t>{2, 0, 2, 0}));
  EXPECT_EQ(numbers(counts[1]), (std::vector<std::int64_t>{4, 2, 2, 1}));
  EXPECT_EQ(numbers(counts[2]), (std::vector<std::int64_t>{5, 3, 3, 2}));
}

std::vector<PassCounts> sequence(std::initializer_list<std::pair<std::int64_t, std::int64_t>> steps) {
  std::vector<PassCounts> counts;
  for (const auto& [failed, prompts] : steps)
    counts.push_back({.target = {}, .prompts = prompts, .failed_prompts = failed});
  return counts;
}

TEST(PassTarget, TheSequenceEndsAtTheFirstThatIsNotCertified) {
  const Guarantee guarantee{.max_violating = 0.1};  // 0 of 29, 1 of 46
  EXPECT_EQ(laxest_certified(sequence({{0, 29}, {1, 46}, {3, 60}, {0, 300}}), guarantee), 1U);
  EXPECT_EQ(laxest_certified(sequence({{0, 10}, {0, 28}, {0, 29}, {0, 40}}), guarantee), 3U) << "passed over";
  EXPECT_EQ(laxest_certified(sequence({{2, 40}, {0, 100}}), guarantee), std::nullopt) << "it does not go on";
  EXPECT_EQ(laxest_certified(sequence({{0, 10}, {0, 28}}), guarantee), std::nullopt);
  EXPECT_EQ(laxest_certified({}, guarantee), std::nullopt);
}

TEST(PassTarget, GridsGoFromStrictToLax) {
  for (const std::string& name : target_predictors()) {
    const std::vector<Target> grid = target_grid(name);
    ASSERT_GT(grid.size(), 10U);
    for (std::size_t i = 1; i < grid.size(); ++i) {
      EXPECT_EQ(grid[i].quantity.name(), name);
      EXPECT_EQ(grid[i].at_least, name != "lse_error.max");
      EXPECT_TRUE(grid[i].at_least ? grid[i].value < grid[i - 1].value : grid[i].value > grid[i - 1].value) << name;
    }
  }
  EXPECT_TRUE(target_grid("keep_ratio.min").empty());
}

/// Prompts whose runs share one hidden hardness: they are not independent. `strictness`: how small deficits become;
/// 0: 12 % of the prompts fail in all runs, whatever the deficits.
OutcomeRuns study_of(std::uint64_t seed, std::size_t prompts, double strictness) {
  constexpr std::size_t kRuns = 8;
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> uniform;
  OutcomeRuns all;
  all.models = all.labels = all.selectors = {"x"};
  all.prompts.resize(prompts);
  all.predictors = {{.name = "span_recall.min", .high_fails = false}};
  for (std::size_t p = 0; p < prompts; ++p) {
    const double hardness = uniform(random);
    for (std::size_t r = 0; r < kRuns; ++r) {
      const double deficit = std::pow(10, -strictness * uniform(random));
      // About 10 % of the prompts fail at deficits of 0.03, more and more at larger ones.
      const bool failed = strictness == 0 ? hardness < 0.12 : hardness < 0.085 + 0.4 * deficit && uniform(random) < 0.9;
      all.runs.push_back({.prompt = p, .failed = failed, .values = {1 - deficit}});
    }
  }
  return all;
}

/// Share of studies in which a target is certified whose true share of failing prompts is above the guaranteed one.
double false_certificates(std::size_t prompts, double strictness, bool runs_as_units) {
  constexpr int kStudies = 500;
  const std::vector<Target> grid = target_grid("span_recall.min");
  const Guarantee guarantee{.max_violating = 0.1};
  const std::vector<PassCounts> truth = pass_counts(study_of(99, 30000, strictness), 0, grid);
  int wrong = 0;
  for (std::uint64_t s = 0; s < kStudies; ++s) {
    std::vector<PassCounts> counts = pass_counts(study_of(1000 + s, prompts, strictness), 0, grid);
    for (PassCounts& one : counts) {
      if (!runs_as_units) break;
      one.prompts = one.runs;
      one.failed_prompts = one.failed_runs;
    }
    const auto found = laxest_certified(counts, guarantee);
    bool broken = false;
    for (std::size_t i = 0; found && i <= *found; ++i)
      broken =
          broken || (truth[i].prompts > 1000 && static_cast<double>(truth[i].failed_prompts) >
                                                    guarantee.max_violating * static_cast<double>(truth[i].prompts));
    wrong += broken ? 1 : 0;
  }
  return static_cast<double>(wrong) / kStudies;
}

TEST(PassTarget, AFalseGuaranteeIsCertifiedInAtMostFivePerCentOfStudies) {
  // Beyond 5 % by two standard errors of 500 studies at most. Strictness 4: few prompts meet strict targets.
  constexpr double kMax = 0.07;
  double largest = 0;
  for (const std::size_t prompts : {40U, 100U, 300U})
    for (const double strictness : {2.0, 4.0}) {
      const double share = false_certificates(prompts, strictness, false);
      EXPECT_LE(share, kMax) << prompts << " " << strictness;
      largest = std::max(largest, share);
    }
  EXPECT_GT(largest, 0.005) << "the case is not trivial";
}

TEST(PassTarget, WithRunsAsUnitsItWouldBeCertifiedOften) {
  EXPECT_LE(false_certificates(100, 0, false), 0.05);
  EXPECT_GT(false_certificates(100, 0, true), 0.1);
}

}  // namespace
}  // namespace attest
