// Which rows have changed, and which of the others could have: Holm's correction over rows of few and of many prompts.
#include "experiments/compare/comparison.h"

#include <gtest/gtest.h>

namespace attest {
namespace {

using enum ChangeVerdict;

struct JudgedRow {
  double p;
  std::size_t prompts;
  bool equal = false;
};

/// At a confidence of 95 %.
Comparison judged(const std::vector<JudgedRow>& rows) {
  Comparison comparison{};
  for (const JudgedRow& of : rows) {
    ComparedRow& row = comparison.rows.emplace_back();
    row.test.p = of.p;
    row.prompts = of.prompts;
    row.equal = of.equal;
  }
  judge(comparison);
  return comparison;
}

std::vector<ChangeVerdict> verdicts(const std::vector<JudgedRow>& rows) {
  std::vector<ChangeVerdict> found;
  for (const ComparedRow& row : judged(rows).rows) found.push_back(row.verdict);
  return found;
}

TEST(Judge, CorrectsForAllRows) {
  const Comparison comparison = judged({{0.04, 20}, {0.01, 20}, {0.03, 20}});
  for (const auto& [row, p] : {std::pair(0, 0.06), std::pair(1, 0.03), std::pair(2, 0.06)})
    EXPECT_DOUBLE_EQ(comparison.rows[static_cast<std::size_t>(row)].adjusted_p, p) << row;
  EXPECT_EQ(comparison.rows[0].verdict, no_evidence) << "0.04 is below 0.05, but one of three";
  EXPECT_EQ(comparison.rows[1].verdict, changed);
  EXPECT_EQ(comparison.rows[2].verdict, no_evidence);
}

TEST(Judge, FivePromptsTellNothing) {
  EXPECT_EQ(verdicts({{0.0625, 5}}), std::vector{too_few_prompts}) << "2/32 is the least that they can have";
  EXPECT_EQ(verdicts({{0.0625, 6}}), std::vector{no_evidence}) << "2/64 would do";
}

TEST(Judge, HowManyPromptsAreEnoughDependsOnTheRowsThatAreLeft) {
  EXPECT_EQ(verdicts({{0.5, 20}, {0.5, 6}}), (std::vector{no_evidence, too_few_prompts})) << "2/64 is above 0.05 / 2";
  EXPECT_EQ(verdicts({{0.001, 20}, {0.5, 6}}), (std::vector{changed, no_evidence})) << "2/64 is below 0.05 / 1";
}

TEST(Judge, EqualCellsAreNoLackOfPrompts) {
  EXPECT_EQ(verdicts({{1, 2, /*equal=*/true}, {1, 2}}), (std::vector{no_evidence, too_few_prompts}));
}

TEST(Judge, TakesTheConfidenceThatWasAsked) {
  Comparison comparison{};
  comparison.test.confidence = 0.9;
  comparison.rows.resize(1);
  comparison.rows[0].test.p = 0.08;
  judge(comparison);
  EXPECT_EQ(comparison.rows[0].verdict, changed);
}

}  // namespace
}  // namespace attest
