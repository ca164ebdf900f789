// Claims: evidence, verdicts at their borders, values that pass, prompts that decide, the end of a fixed sequence.
#include "analysis/validation/claim.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "dumps/base/error.h"
#include "tests/analysis/validation/made_results.h"
#include "tests/dumps/scratch_folder.h"

namespace attest {
namespace {

using ::testing::HasSubstr;
using testing::targets_of;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// k prompts at 0.5 and n - k at 1, for one target recall>=0.9.
PromptNumbers violations(std::int64_t k, std::int64_t n) {
  PromptNumbers numbers;
  for (std::int64_t i = 0; i < n; ++i) numbers.push_back({i < k ? 0.5 : 1.0});
  return numbers;
}

Certainty verdict(std::int64_t k, std::int64_t n, const Claim& claim) {
  return judge(violations(k, n), targets_of({"recall>=0.9"}), claim).certainty;
}

Claim with(double confidence, double beta) { return {.confidence = confidence, .max_violating = beta}; }

TEST(ClaimOfPrompts, BordersOfTheDocuments) {
  const Claim claim;
  EXPECT_EQ(verdict(0, 28, claim), Certainty::undecided);
  EXPECT_EQ(verdict(0, 29, claim), Certainty::certified);
  EXPECT_EQ(verdict(1, 45, claim), Certainty::undecided);
  EXPECT_EQ(verdict(1, 46, claim), Certainty::certified);
  EXPECT_EQ(verdict(2, 60, claim), Certainty::undecided);
  EXPECT_EQ(verdict(2, 61, claim), Certainty::certified);
  EXPECT_EQ(verdict(0, 59, with(0.95, 0.05)), Certainty::certified);
  EXPECT_EQ(verdict(0, 58, with(0.95, 0.05)), Certainty::undecided);
  EXPECT_EQ(verdict(0, 299, with(0.95, 0.01)), Certainty::certified);
  EXPECT_EQ(verdict(0, 298, with(0.95, 0.01)), Certainty::undecided);
  // P(Bin(30, 0.1) >= 7) = 0.0258, >= 6: 0.0732.
  EXPECT_EQ(verdict(6, 30, claim), Certainty::undecided);
  EXPECT_EQ(verdict(7, 30, claim), Certainty::refuted);
}

/// Where 1 - confidence is (1 - beta)^n exactly, rounding does not take the certificate away.
TEST(ClaimOfPrompts, ExactBorders) {
  for (int n = 1; n <= 20; ++n) {
    const double p = std::pow(0.5, n);
    EXPECT_EQ(verdict(0, n, with(1 - p, 0.5)), Certainty::certified) << n;
    EXPECT_EQ(fewest_prompts(with(1 - p, 0.5), targets_of({"recall>=0.9"})), n);
    EXPECT_NE(verdict(0, n - 1, with(1 - p, 0.5)), Certainty::certified) << n;
  }
  for (const double beta : {0.1, 0.2, 0.25, 0.3, 0.75})
    EXPECT_EQ(verdict(0, 1, with(beta, beta)), Certainty::certified) << beta;
  EXPECT_EQ(verdict(3, 3, with(1 - 0.015625, 0.25)), Certainty::refuted);
}

TEST(ClaimOfPrompts, FewestPromptsIsWhereNoViolationCertifies) {
  const std::vector<Target> targets = targets_of({"recall>=0.9"});
  for (const double confidence : {0.5, 0.9, 0.95, 0.99, 0.999})
    for (const double beta : {0.01, 0.05, 0.1, 0.3, 0.5, 0.9}) {
      const std::int64_t fewest = fewest_prompts(with(confidence, beta), targets);
      EXPECT_EQ(verdict(0, fewest, with(confidence, beta)), Certainty::certified) << confidence << ' ' << beta;
      EXPECT_NE(verdict(0, fewest - 1, with(confidence, beta)), Certainty::certified);
    }
}

TEST(ClaimOfPrompts, EvidenceIsItsFormulas) {
  const Evidence evidence = judge(violations(3, 30), targets_of({"recall>=0.9"}), {});
  EXPECT_EQ(evidence.prompts, 30);
  EXPECT_EQ(evidence.violations, 3);
  double p = 0;
  for (const double term : {1.0, 30.0 / 9, 435.0 / 81, 4060.0 / 729}) p += term * std::pow(0.9, 30);
  EXPECT_NEAR(evidence.p_value, p, 1e-12);
  EXPECT_NEAR(evidence.share.low, 0.02111714, 1e-7);
  EXPECT_NEAR(evidence.share.high, 0.26528846, 1e-7);
  EXPECT_NEAR(evidence.targets[0].mean_deficit, 0.05, 1e-15);
}

TEST(ClaimOfPrompts, PromptsWithoutANumberDoNotCount) {
  PromptNumbers numbers = violations(0, 29);
  for (int i = 0; i < 50; ++i) numbers.push_back({kNaN});
  const Evidence evidence = judge(numbers, targets_of({"recall>=0.9"}), {});
  EXPECT_EQ(evidence.prompts, 29);
  EXPECT_EQ(evidence.certainty, Certainty::certified);
  numbers[0][0] = kNaN;
  EXPECT_EQ(judge(numbers, targets_of({"recall>=0.9"}), {}).certainty, Certainty::undecided);
}

/// A target for which few prompts count is not certified by those that do not.
TEST(ClaimOfPrompts, EachTargetNeedsPromptsOfItsOwn) {
  const std::vector<Target> targets = targets_of({"recall>=0.9", "span_recall>=0.9"});
  PromptNumbers numbers;
  for (int i = 0; i < 300; ++i) numbers.push_back({1.0, i < 28 ? 1.0 : kNaN});
  Evidence evidence = judge(numbers, targets, {});
  EXPECT_EQ(evidence.certainty, Certainty::undecided);
  EXPECT_NEAR(evidence.p_value, std::pow(0.9, 28), 1e-12);
  // 29 of them are needed; 28 of 300 count: 29 * 300 / 28 = 310.7.
  EXPECT_EQ(prompts_to_decide(numbers, evidence, targets, {}), 311);
  numbers[28][1] = 1;
  EXPECT_EQ(judge(numbers, targets, {}).certainty, Certainty::certified);
  // All that count for it miss it, which is few of all prompts, yet refutes the claim.
  for (int i = 0; i < 29; ++i) numbers[static_cast<std::size_t>(i)][1] = 0.1;
  evidence = judge(numbers, targets, {});
  EXPECT_LT(evidence.violations, 30);
  EXPECT_EQ(evidence.certainty, Certainty::refuted);
}

/// Both targets hold for 8 % of the prompts too few, but for different ones.
TEST(ClaimOfPrompts, ViolationsOfSeveralTargetsAddUp) {
  const std::vector<Target> targets = targets_of({"recall>=0.9", "lse_error<=0.1"});
  PromptNumbers numbers;
  for (int i = 0; i < 1000; ++i) numbers.push_back({i < 75 ? 0.5 : 1.0, i >= 75 && i < 150 ? 1.0 : 0.0});
  const Evidence evidence = judge(numbers, targets, {});
  EXPECT_EQ(evidence.violations, 150);
  EXPECT_LE(evidence.targets[0].p_value, 0.05);
  EXPECT_LE(evidence.targets[1].p_value, 0.05);
  EXPECT_EQ(evidence.certainty, Certainty::refuted);
}

TEST(ClaimOfPrompts, PassingValueIsTheStrictestThatCertifies) {
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> uniform(0.9, 1);
  for (const std::int64_t n : {29, 46, 61, 100, 300}) {
    PromptNumbers numbers;
    for (std::int64_t i = 0; i < n; ++i) numbers.push_back({uniform(random), 1 - uniform(random)});
    std::vector<Target> targets = targets_of({"recall>=0.9", "lse_error<=0.1"});
    Evidence evidence = judge(numbers, targets, {});
    find_passing_values(numbers, targets, {}, evidence);
    for (std::size_t t = 0; t < 2; ++t) {
      PromptNumbers own;
      for (const auto& prompt : numbers) own.push_back({prompt[t]});
      Target target = targets[t];
      target.value = *evidence.targets[t].passes_at;
      EXPECT_EQ(judge(own, {&target, 1}, {}).certainty, Certainty::certified) << n;
      target.value *= t == 0 ? 1 + 1e-6 : 1 - 1e-4;
      EXPECT_NE(judge(own, {&target, 1}, {}).certainty, Certainty::certified) << n;
    }
  }
  Evidence few = judge(violations(0, 28), targets_of({"recall>=0.9"}), {});
  find_passing_values(violations(0, 28), targets_of({"recall>=0.9"}), {}, few);
  EXPECT_EQ(few.targets[0].passes_at, std::nullopt);
}

TEST(ClaimOfPrompts, PromptsToDecide) {
  const std::vector<Target> targets = targets_of({"recall>=0.9"});
  const auto needed = [&](std::int64_t k, std::int64_t n) {
    const PromptNumbers numbers = violations(k, n);
    return prompts_to_decide(numbers, judge(numbers, targets, {}), targets, {});
  };
  EXPECT_EQ(needed(0, 28), 29);
  EXPECT_EQ(needed(0, 1), 29);
  EXPECT_EQ(needed(3, 30), std::nullopt) << "3 of 30 are 10 %";
  EXPECT_EQ(needed(30, 30), 30) << "decided";
  for (const auto& [k, n] :
       {std::pair<std::int64_t, std::int64_t>{1, 30}, {2, 30}, {4, 30}, {6, 30}, {9, 100}, {1, 1}}) {
    const auto m = needed(k, n);
    ASSERT_TRUE(m.has_value()) << k << ' ' << n;
    const double share = static_cast<double>(k) / static_cast<double>(n), seen = share * static_cast<double>(*m);
    const auto went_on = static_cast<std::int64_t>(share < 0.1 ? std::ceil(seen - 1e-9) : std::floor(seen + 1e-9));
    EXPECT_EQ(verdict(went_on, *m, {}), share < 0.1 ? Certainty::certified : Certainty::refuted) << k << ' ' << n;
  }
}

TEST(ClaimOfMean, ClipAndLosses) {
  const std::vector<Target> targets = targets_of({"recall>=0.99"});
  Claim claim{.kind = ClaimKind::mean, .bound = MeanBound::hb};
  EXPECT_NEAR(claim.clip_of(targets[0]), 0.1, 1e-15);
  PromptNumbers numbers;
  for (int i = 0; i < 40; ++i) numbers.push_back({i == 7 ? -1.0 : 0.999});
  const Evidence evidence = judge(numbers, targets, claim);
  std::vector<double> losses(40, 0.01);
  losses[7] = 1;
  EXPECT_NEAR(evidence.p_value, mean_p_value(MeanBound::hb, losses, 0.1, 0.05, 0), 1e-9);
  EXPECT_NEAR(evidence.targets[0].mean_deficit, (39 * 0.001 + 2) / 40, 1e-12) << "not clipped";
  EXPECT_EQ(evidence.targets[0].beyond_clip, 1);
  EXPECT_NEAR(evidence.targets[0].beyond_clip_at_most, share_upper_bound(1, 40, 0.95), 1e-12);
}

TEST(ClaimOfMean, ZeroLossCertifiesWithTheFewestPrompts) {
  const std::vector<Target> targets = targets_of({"recall>=0.99"});
  for (const MeanBound bound : {MeanBound::hb, MeanBound::wsr}) {
    const Claim claim{.kind = ClaimKind::mean, .bound = bound};
    EXPECT_EQ(fewest_prompts(claim, targets), 29);
    EXPECT_EQ(judge(PromptNumbers(29, {1.0}), targets, claim).certainty, Certainty::certified);
    EXPECT_EQ(judge(PromptNumbers(28, {1.0}), targets, claim).certainty, Certainty::undecided);
    // Clipped at 1, the allowed loss is 1 %.
    Claim wide = claim;
    wide.clip = 1;
    EXPECT_EQ(fewest_prompts(wide, targets), 299);
    EXPECT_EQ(judge(PromptNumbers(299, {1.0}), targets, wide).certainty, Certainty::certified);
    wide.clip = 1000;
    EXPECT_EQ(fewest_prompts(wide, targets), 299572) << "more than can be tried";
  }
}

TEST(ClaimOfMean, VerdictsAreOfEveryTarget) {
  const std::vector<Target> targets = targets_of({"recall>=0.99", "lse_error<=0.1"});
  for (const MeanBound bound : {MeanBound::hb, MeanBound::wsr}) {
    const Claim claim{.kind = ClaimKind::mean, .bound = bound};
    EXPECT_EQ(judge(PromptNumbers(60, {0.999, 0.01}), targets, claim).certainty, Certainty::certified);
    EXPECT_EQ(judge(PromptNumbers(60, {0.999, 0.9}), targets, claim).certainty, Certainty::refuted);
    EXPECT_EQ(judge(PromptNumbers(60, {0.5, 0.01}), targets, claim).certainty, Certainty::refuted);
    EXPECT_EQ(judge(PromptNumbers(60, {0.999, kNaN}), targets, claim).certainty, Certainty::undecided);
    EXPECT_EQ(judge(PromptNumbers(5, {0.999, 0.01}), targets, claim).certainty, Certainty::undecided);
  }
}

TEST(ClaimOfMean, PassingValueCertifiesAtTheSameClip) {
  std::mt19937_64 random(4);
  std::uniform_real_distribution<double> uniform(0, 0.005);
  std::vector<Target> targets = targets_of({"recall>=0.99"});
  for (const MeanBound bound : {MeanBound::hb, MeanBound::wsr})
    for (const std::size_t n : {4, 8, 30, 200}) {
      PromptNumbers numbers;
      for (std::size_t i = 0; i < n; ++i) numbers.push_back({1 - uniform(random)});
      Claim claim{.kind = ClaimKind::mean, .bound = bound, .clip = 0.1};
      Evidence evidence = judge(numbers, targets, claim);
      find_passing_values(numbers, targets, claim, evidence);
      ASSERT_TRUE(evidence.targets[0].passes_at) << n;
      Target target = targets[0];
      target.value = *evidence.targets[0].passes_at;
      EXPECT_EQ(judge(numbers, {&target, 1}, claim).certainty, Certainty::certified) << n;
      target.value += 1e-6;
      EXPECT_NE(judge(numbers, {&target, 1}, claim).certainty, Certainty::certified) << n;
    }
}

TEST(ClaimOfMean, PromptsToDecide) {
  const std::vector<Target> targets = targets_of({"recall>=0.99"});
  for (const MeanBound bound : {MeanBound::hb, MeanBound::wsr}) {
    const Claim claim{.kind = ClaimKind::mean, .bound = bound};
    for (const double x : {0.995, 0.98}) {
      const PromptNumbers few(4, {x});
      const Evidence evidence = judge(few, targets, claim);
      ASSERT_EQ(evidence.certainty, Certainty::undecided);
      const auto needed = prompts_to_decide(few, evidence, targets, claim);
      ASSERT_TRUE(needed);
      EXPECT_EQ(judge(PromptNumbers(static_cast<std::size_t>(*needed), {x}), targets, claim).certainty,
                x > 0.99 ? Certainty::certified : Certainty::refuted);
      EXPECT_EQ(judge(PromptNumbers(static_cast<std::size_t>(*needed - 1), {x}), targets, claim).certainty,
                Certainty::undecided);
    }
  }
}

TEST(ClaimObserved, CountsTheSample) {
  const auto observed = [](double beta) { return Claim{.kind = ClaimKind::observed, .max_violating = beta}; };
  EXPECT_EQ(verdict(3, 30, observed(0.1)), Certainty::certified);
  EXPECT_EQ(verdict(4, 30, observed(0.1)), Certainty::refuted);
  EXPECT_EQ(verdict(0, 1, observed(0)), Certainty::certified);
  EXPECT_EQ(verdict(1, 1000, observed(0)), Certainty::refuted);
  Evidence evidence = judge(violations(3, 30), targets_of({"recall>=0.9"}), observed(0.1));
  find_passing_values(violations(3, 30), targets_of({"recall>=0.9"}), observed(0.1), evidence);
  EXPECT_EQ(evidence.targets[0].passes_at, 1.0);
}

/// Nothing was observed of a target without a number.
TEST(ClaimObserved, NeedsANumberForEveryTarget) {
  const PromptNumbers numbers(5, {1.0, kNaN});
  const Claim claim{.kind = ClaimKind::observed};
  EXPECT_NE(judge(numbers, targets_of({"recall>=0.9", "span_recall>=0.9"}), claim).certainty, Certainty::certified);
}

TEST(CheckClaim, RefusesWhatCannotBeClaimed) {
  const auto refusal = [](const Claim& claim, const std::string& target) {
    return message_of<UsageError>([&] { check_claim(claim, targets_of({target})); });
  };
  for (const double x : {0.0, 1.0, -0.5, 2.0, kNaN}) {
    EXPECT_THAT(refusal(with(x, 0.1), "recall>=0.9"), HasSubstr("--confidence")) << x;
    EXPECT_THAT(refusal(with(0.9, x), "recall>=0.9"), HasSubstr("--max-violating")) << x;
  }
  const Claim mean{.kind = ClaimKind::mean};
  EXPECT_THAT(refusal(mean, "lse_error>=0.1"), HasSubstr("no deficit"));
  EXPECT_THAT(refusal(mean, "recall<=0.5"), HasSubstr("no deficit"));
  EXPECT_THAT(refusal(mean, "recall>=1"), HasSubstr("allows no deficit"));
  EXPECT_THAT(refusal(mean, "lse_error<=0"), HasSubstr("allows no deficit"));
  EXPECT_THAT(refusal({.kind = ClaimKind::mean, .clip = 0.05}, "recall>=0.9"), HasSubstr("--clip"));
  EXPECT_THAT(refusal({.kind = ClaimKind::mean, .clip = 0}, "recall>=0.9"), HasSubstr("--clip"));
  EXPECT_EQ(refusal({.kind = ClaimKind::mean, .clip = 0.2}, "recall>=0.9"), "");
  EXPECT_EQ(refusal({.kind = ClaimKind::observed, .max_violating = 0}, "recall>=0.9"), "");
}

TEST(EndOfSequence, TheFirstThatIsNotCertifiedEndsIt) {
  constexpr auto c = Certainty::certified, r = Certainty::refuted, u = Certainty::undecided;
  const auto end = [](const std::vector<Certainty>& all) {
    const SequenceEnd found = end_of_sequence(all);
    return std::pair(found.certified ? static_cast<int>(*found.certified) : -1,
                     found.stopped ? static_cast<int>(*found.stopped) : -1);
  };
  EXPECT_EQ(end({c, c, u, c, c}), std::pair(1, 2)) << "what follows is not looked at";
  EXPECT_EQ(end({c, c, c}), std::pair(2, -1));
  EXPECT_EQ(end({r, c}), std::pair(-1, 0));
  EXPECT_EQ(end({}), std::pair(-1, -1));
}

}  // namespace
}  // namespace attest
