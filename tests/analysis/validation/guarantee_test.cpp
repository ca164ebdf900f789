// Guarantees: evidence, verdicts at their borders, values that pass, prompts that decide, the end of a fixed sequence.
#include "analysis/validation/guarantee.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "dumps/base/error.h"
#include "tests/analysis/validation/made_results.h"
#include "tests/message_of.h"

namespace attest {
namespace {

using test::targets_of;
using ::testing::HasSubstr;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// k prompts at 0.5 and n - k at 1, for one target recall>=0.9.
PromptNumbers violations(std::int64_t k, std::int64_t n) {
  PromptNumbers numbers;
  for (std::int64_t i = 0; i < n; ++i) numbers.push_back({i < k ? 0.5 : 1.0});
  return numbers;
}

Certainty verdict(std::int64_t k, std::int64_t n, const Guarantee& guarantee) {
  return judge(violations(k, n), targets_of({"recall>=0.9"}), guarantee).certainty;
}

Guarantee with(double confidence, double beta) { return {.confidence = confidence, .max_violating = beta}; }

TEST(GuaranteeOfPrompts, BordersOfTheDocuments) {
  const Guarantee guarantee;
  EXPECT_EQ(verdict(0, 28, guarantee), Certainty::undecided);
  EXPECT_EQ(verdict(0, 29, guarantee), Certainty::certified);
  EXPECT_EQ(verdict(1, 45, guarantee), Certainty::undecided);
  EXPECT_EQ(verdict(1, 46, guarantee), Certainty::certified);
  EXPECT_EQ(verdict(2, 60, guarantee), Certainty::undecided);
  EXPECT_EQ(verdict(2, 61, guarantee), Certainty::certified);
  EXPECT_EQ(verdict(0, 59, with(0.95, 0.05)), Certainty::certified);
  EXPECT_EQ(verdict(0, 58, with(0.95, 0.05)), Certainty::undecided);
  EXPECT_EQ(verdict(0, 299, with(0.95, 0.01)), Certainty::certified);
  EXPECT_EQ(verdict(0, 298, with(0.95, 0.01)), Certainty::undecided);
  // P(Bin(30, 0.1) >= 7) = 0.0258, >= 6: 0.0732.
  EXPECT_EQ(verdict(6, 30, guarantee), Certainty::undecided);
  EXPECT_EQ(verdict(7, 30, guarantee), Certainty::refuted);
}

/// Where 1 - confidence is (1 - beta)^n exactly, rounding does not take the certificate away.
TEST(GuaranteeOfPrompts, ExactBorders) {
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

TEST(GuaranteeOfPrompts, FewestPromptsIsWhereNoViolationCertifies) {
  const std::vector<Target> targets = targets_of({"recall>=0.9"});
  for (const double confidence : {0.5, 0.9, 0.95, 0.99, 0.999})
    for (const double beta : {0.01, 0.05, 0.1, 0.3, 0.5, 0.9}) {
      const std::int64_t fewest = fewest_prompts(with(confidence, beta), targets);
      EXPECT_EQ(verdict(0, fewest, with(confidence, beta)), Certainty::certified) << confidence << ' ' << beta;
      EXPECT_NE(verdict(0, fewest - 1, with(confidence, beta)), Certainty::certified);
    }
}

TEST(GuaranteeOfPrompts, EvidenceIsItsFormulas) {
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

TEST(GuaranteeOfPrompts, PromptsWithoutANumberDoNotCount) {
  PromptNumbers numbers = violations(0, 29);
  for (int i = 0; i < 50; ++i) numbers.push_back({kNaN});
  const Evidence evidence = judge(numbers, targets_of({"recall>=0.9"}), {});
  EXPECT_EQ(evidence.prompts, 29);
  EXPECT_EQ(evidence.certainty, Certainty::certified);
  numbers[0][0] = kNaN;
  EXPECT_EQ(judge(numbers, targets_of({"recall>=0.9"}), {}).certainty, Certainty::undecided);
}

/// A target for which few prompts count is not certified by those that do not.
TEST(GuaranteeOfPrompts, EachTargetNeedsPromptsOfItsOwn) {
  const std::vector<Target> targets = targets_of({"recall>=0.9", "span_recall>=0.9"});
  PromptNumbers numbers;
  for (int i = 0; i < 300; ++i) numbers.push_back({1.0, i < 28 ? 1.0 : kNaN});
  Evidence evidence = judge(numbers, targets, {});
  EXPECT_EQ(evidence.certainty, Certainty::undecided);
  EXPECT_NEAR(evidence.p_value, std::pow(0.9, 28), 1e-12);
  // 29 of them are needed; 28 of 300 count: 29 * 300 / 28 = 310.7.
  EXPECT_EQ(prompts_to_decide(numbers, evidence, targets, {}), 311);
  // The same where the others count for no target at all: they are to be brought, too.
  for (auto& prompt : numbers)
    if (std::isnan(prompt[1])) prompt[0] = kNaN;
  EXPECT_EQ(prompts_to_decide(numbers, judge(numbers, targets, {}), targets, {}), 311);
  for (auto& prompt : numbers) prompt[0] = 1;
  numbers[28][1] = 1;
  EXPECT_EQ(judge(numbers, targets, {}).certainty, Certainty::certified);
  // All that count for it miss it, which is few of all prompts, yet refutes the guarantee.
  for (int i = 0; i < 29; ++i) numbers[static_cast<std::size_t>(i)][1] = 0.1;
  evidence = judge(numbers, targets, {});
  EXPECT_LT(evidence.violations, 30);
  EXPECT_EQ(evidence.certainty, Certainty::refuted);
}

/// Both targets hold for 8 % of the prompts too few, but for different ones.
TEST(GuaranteeOfPrompts, ViolationsOfSeveralTargetsAddUp) {
  const std::vector<Target> targets = targets_of({"recall>=0.9", "lse_error<=0.1"});
  PromptNumbers numbers;
  for (int i = 0; i < 1000; ++i) numbers.push_back({i < 75 ? 0.5 : 1.0, i >= 75 && i < 150 ? 1.0 : 0.0});
  const Evidence evidence = judge(numbers, targets, {});
  EXPECT_EQ(evidence.violations, 150);
  EXPECT_LE(evidence.targets[0].p_value, 0.05);
  EXPECT_LE(evidence.targets[1].p_value, 0.05);
  EXPECT_EQ(evidence.certainty, Certainty::refuted);
}

TEST(GuaranteeOfPrompts, PassingValueIsTheStrictestThatCertifies) {
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> uniform(0.9, 1);
  for (const std::int64_t n : {29, 46, 61, 100, 300}) {
    PromptNumbers numbers;
    for (std::int64_t i = 0; i < n; ++i) numbers.push_back({uniform(random), 1 - uniform(random)});
    std::vector<Target> targets = targets_of({"recall>=0.9", "lse_error<=0.1"});
    Evidence evidence = judge(numbers, targets, {});
    find_passing_values(numbers, targets, {}, evidence);
    // Together: what is fed back is certified at once, and no target can be stricter beside the others.
    for (std::size_t t = 0; t < 2; ++t) targets[t].value = *evidence.targets[t].passes_at;
    EXPECT_EQ(judge(numbers, targets, {}).certainty, Certainty::certified) << n;
    for (std::size_t t = 0; t < 2; ++t) {
      std::vector<Target> stricter = targets;
      stricter[t].value *= t == 0 ? 1 + 1e-6 : 1 - 1e-4;
      EXPECT_NE(judge(numbers, stricter, {}).certainty, Certainty::certified) << n;
    }
  }
  // A target for which few prompts count allows fewer violations than all of them together.
  PromptNumbers partly;
  for (int i = 0; i < 100; ++i) partly.push_back({uniform(random), i < 30 ? 1 - uniform(random) : kNaN});
  std::vector<Target> targets = targets_of({"recall>=0.9", "lse_error<=0.1"});
  Evidence evidence = judge(partly, targets, {});
  find_passing_values(partly, targets, {}, evidence);
  for (std::size_t t = 0; t < 2; ++t) targets[t].value = evidence.targets[t].passes_at.value();
  EXPECT_EQ(judge(partly, targets, {}).certainty, Certainty::certified);
  Evidence few = judge(violations(0, 28), targets_of({"recall>=0.9"}), {});
  find_passing_values(violations(0, 28), targets_of({"recall>=0.9"}), {}, few);
  EXPECT_EQ(few.targets[0].passes_at, std::nullopt);
}

TEST(GuaranteeOfPrompts, PromptsToDecide) {
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

TEST(GuaranteeOfMean, ClipAndLosses) {
  const std::vector<Target> targets = targets_of({"recall>=0.99"});
  Guarantee guarantee{.kind = GuaranteeKind::mean, .bound = MeanBound::hb};
  EXPECT_NEAR(guarantee.clip_of(targets[0]), 0.1, 1e-15);
  PromptNumbers numbers;
  for (int i = 0; i < 40; ++i) numbers.push_back({i == 7 ? -1.0 : 0.999});
  const Evidence evidence = judge(numbers, targets, guarantee);
  std::vector<double> losses(40, 0.01);
  losses[7] = 1;
  EXPECT_NEAR(evidence.p_value, mean_p_value(MeanBound::hb, losses, 0.1, 0.05, 0), 1e-9);
  EXPECT_NEAR(evidence.targets[0].mean_deficit, (39 * 0.001 + 2) / 40, 1e-12) << "not clipped";
  EXPECT_EQ(evidence.targets[0].beyond_clip, 1);
  EXPECT_NEAR(evidence.targets[0].beyond_clip_at_most, share_upper_bound(1, 40, 0.95), 1e-12);
}

/// One prompt without a loss, and eight of which the mean is right on the target.
TEST(GuaranteeOfMean, TheBootstrapCertifiesNothing) {
  const std::vector<Target> targets = targets_of({"recall>=0.99"});
  const Guarantee guarantee{.kind = GuaranteeKind::mean, .bound = MeanBound::bootstrap};
  EXPECT_FALSE(guarantee.certifies());
  EXPECT_EQ(judge(PromptNumbers(1, {1.0}), targets, guarantee).certainty, Certainty::shown);
  EXPECT_EQ(judge(PromptNumbers(8, {0.9}), targets, guarantee).certainty, Certainty::not_shown);
}

TEST(GuaranteeOfMean, ZeroLossCertifiesWithTheFewestPrompts) {
  const std::vector<Target> targets = targets_of({"recall>=0.99"});
  for (const MeanBound bound : {MeanBound::hb, MeanBound::wsr}) {
    const Guarantee guarantee{.kind = GuaranteeKind::mean, .bound = bound};
    EXPECT_EQ(fewest_prompts(guarantee, targets), 29);
    EXPECT_EQ(judge(PromptNumbers(29, {1.0}), targets, guarantee).certainty, Certainty::certified);
    EXPECT_EQ(judge(PromptNumbers(28, {1.0}), targets, guarantee).certainty, Certainty::undecided);
    // Clipped at 1, the allowed loss is 1 %.
    Guarantee wide = guarantee;
    wide.clip = 1;
    EXPECT_EQ(fewest_prompts(wide, targets), 299);
    EXPECT_EQ(judge(PromptNumbers(299, {1.0}), targets, wide).certainty, Certainty::certified);
    wide.clip = 1000;
    EXPECT_EQ(fewest_prompts(wide, targets), 299572) << "more than can be tried";
  }
}

TEST(GuaranteeOfMean, VerdictsAreOfEveryTarget) {
  const std::vector<Target> targets = targets_of({"recall>=0.99", "lse_error<=0.1"});
  for (const MeanBound bound : {MeanBound::hb, MeanBound::wsr}) {
    const Guarantee guarantee{.kind = GuaranteeKind::mean, .bound = bound};
    EXPECT_EQ(judge(PromptNumbers(60, {0.999, 0.01}), targets, guarantee).certainty, Certainty::certified);
    EXPECT_EQ(judge(PromptNumbers(60, {0.999, 0.9}), targets, guarantee).certainty, Certainty::refuted);
    EXPECT_EQ(judge(PromptNumbers(60, {0.5, 0.01}), targets, guarantee).certainty, Certainty::refuted);
    EXPECT_EQ(judge(PromptNumbers(60, {0.999, kNaN}), targets, guarantee).certainty, Certainty::undecided);
    EXPECT_EQ(judge(PromptNumbers(5, {0.999, 0.01}), targets, guarantee).certainty, Certainty::undecided);
  }
}

TEST(GuaranteeOfMean, PassingValueCertifiesAtTheSameClip) {
  std::mt19937_64 random(4);
  std::uniform_real_distribution<double> uniform(0, 0.005);
  std::vector<Target> targets = targets_of({"recall>=0.99"});
  for (const MeanBound bound : {MeanBound::hb, MeanBound::wsr})
    for (const std::size_t n : {4, 8, 30, 200}) {
      PromptNumbers numbers;
      for (std::size_t i = 0; i < n; ++i) numbers.push_back({1 - uniform(random)});
      Guarantee guarantee{.kind = GuaranteeKind::mean, .bound = bound, .clip = 0.1};
      Evidence evidence = judge(numbers, targets, guarantee);
      find_passing_values(numbers, targets, guarantee, evidence);
      ASSERT_TRUE(evidence.targets[0].passes_at) << n;
      Target target = targets[0];
      target.value = *evidence.targets[0].passes_at;
      EXPECT_EQ(judge(numbers, {&target, 1}, guarantee).certainty, Certainty::certified) << n;
      target.value += 1e-6;
      EXPECT_NE(judge(numbers, {&target, 1}, guarantee).certainty, Certainty::certified) << n;
      // Without --clip it moves with the target, as it will when the value is fed back.
      guarantee.clip.reset();
      find_passing_values(numbers, targets, guarantee, evidence);
      EXPECT_TRUE(n >= 29 || !evidence.targets[0].passes_at) << "fewer certify nothing with a clip of ten times";
      EXPECT_TRUE(n < 200 || evidence.targets[0].passes_at);
      if (!evidence.targets[0].passes_at) continue;
      target.value = *evidence.targets[0].passes_at;
      EXPECT_EQ(judge(numbers, {&target, 1}, guarantee).certainty, Certainty::certified) << n;
    }
}

TEST(GuaranteeOfMean, PromptsToDecide) {
  const std::vector<Target> targets = targets_of({"recall>=0.99"});
  for (const MeanBound bound : {MeanBound::hb, MeanBound::wsr}) {
    const Guarantee guarantee{.kind = GuaranteeKind::mean, .bound = bound};
    for (const double x : {0.995, 0.98}) {
      const PromptNumbers few(4, {x});
      const Evidence evidence = judge(few, targets, guarantee);
      ASSERT_EQ(evidence.certainty, Certainty::undecided);
      const auto needed = prompts_to_decide(few, evidence, targets, guarantee);
      ASSERT_TRUE(needed);
      EXPECT_EQ(judge(PromptNumbers(static_cast<std::size_t>(*needed), {x}), targets, guarantee).certainty,
                x > 0.99 ? Certainty::certified : Certainty::refuted);
      EXPECT_EQ(judge(PromptNumbers(static_cast<std::size_t>(*needed - 1), {x}), targets, guarantee).certainty,
                Certainty::undecided);
    }
  }
}

TEST(GuaranteeObserved, CountsTheSample) {
  const auto observed = [](double beta) { return Guarantee{.kind = GuaranteeKind::observed, .max_violating = beta}; };
  EXPECT_EQ(verdict(3, 30, observed(0.1)), Certainty::shown) << "nothing is certified";
  EXPECT_EQ(verdict(4, 30, observed(0.1)), Certainty::not_shown);
  EXPECT_EQ(verdict(0, 1, observed(0)), Certainty::shown);
  EXPECT_EQ(verdict(1, 1000, observed(0)), Certainty::not_shown);
  Evidence evidence = judge(violations(3, 30), targets_of({"recall>=0.9"}), observed(0.1));
  find_passing_values(violations(3, 30), targets_of({"recall>=0.9"}), observed(0.1), evidence);
  EXPECT_EQ(evidence.targets[0].passes_at, 1.0);
}

/// Nothing was observed of a target without a number.
TEST(GuaranteeObserved, NeedsANumberForEveryTarget) {
  const PromptNumbers numbers(5, {1.0, kNaN});
  const Guarantee guarantee{.kind = GuaranteeKind::observed};
  EXPECT_EQ(judge(numbers, targets_of({"recall>=0.9", "span_recall>=0.9"}), guarantee).certainty, Certainty::not_shown);
}

TEST(CheckGuarantee, RefusesWhatCannotBeClaimed) {
  const auto refusal = [](const Guarantee& guarantee, const std::string& target) {
    return message_of<UsageError>([&] { check_guarantee(guarantee, targets_of({target})); });
  };
  for (const double x : {0.0, 1.0, -0.5, 2.0, kNaN}) {
    EXPECT_THAT(refusal(with(x, 0.1), "recall>=0.9"), HasSubstr("--confidence")) << x;
    EXPECT_THAT(refusal(with(0.9, x), "recall>=0.9"), HasSubstr("--max-violating")) << x;
  }
  const Guarantee mean{.kind = GuaranteeKind::mean};
  EXPECT_THAT(refusal(mean, "dropped_gap>=1"), HasSubstr("no deficit"));
  EXPECT_THAT(refusal(mean, "scan_error_mean<=0.5"), HasSubstr("no deficit"));
  EXPECT_THAT(refusal(mean, "recall>=1"), HasSubstr("allows no deficit"));
  EXPECT_THAT(refusal(mean, "lse_error<=0"), HasSubstr("allows no deficit"));
  EXPECT_THAT(refusal({.kind = GuaranteeKind::mean, .clip = 0.05}, "recall>=0.9"), HasSubstr("--clip"));
  EXPECT_THAT(refusal({.kind = GuaranteeKind::mean, .clip = 0}, "recall>=0.9"), HasSubstr("--clip"));
  EXPECT_EQ(refusal({.kind = GuaranteeKind::mean, .clip = 0.2}, "recall>=0.9"), "");
  EXPECT_EQ(refusal({.kind = GuaranteeKind::observed, .max_violating = 0}, "recall>=0.9"), "");
}

TEST(EndOfSequence, TheFirstThatIsNotCertifiedEndsIt) {
  constexpr auto c = Certainty::certified, r = Certainty::refuted, u = Certainty::undecided;
  const auto end = [](const std::vector<Certainty>& all) {
    const SequenceEnd found = end_of_sequence(all);
    return std::pair(found.passed ? static_cast<int>(*found.passed) : -1,
                     found.stopped ? static_cast<int>(*found.stopped) : -1);
  };
  EXPECT_EQ(end({c, c, u, c, c}), std::pair(1, 2)) << "what follows is not looked at";
  EXPECT_EQ(end({c, c, c}), std::pair(2, -1));
  EXPECT_EQ(end({r, c}), std::pair(-1, 0));
  EXPECT_EQ(end({}), std::pair(-1, -1));
}

}  // namespace
}  // namespace attest
