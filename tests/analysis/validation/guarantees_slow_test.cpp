// Certificates over planted truths, counted: false ones are at most alpha, and true ones come as early as they can.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

#include "analysis/validation/guarantee.h"
#include "analysis/validation/unit_family.h"
#include "tests/analysis/validation/made_results.h"

namespace attest {
namespace {

using test::targets_of;
using Random = std::mt19937_64;

constexpr double kAlpha = 0.05;
/// Standard errors of a counted share that a test allows: one of a thousand right programs fails one of 30 such tests.
constexpr double kErrors = 4;

double uniform(Random& random) { return static_cast<double>(random() >> 11) * 0x1p-53; }

double normal(Random& random) {
  return std::sqrt(-2 * std::log1p(-uniform(random))) * std::cos(2 * 3.14159265358979 * uniform(random));
}

void report(const char* what, std::size_t n, int count, int trials) {
  std::printf("%-58s n = %4zu: %5d of %6d, %.2f %%\n", what, n, count, trials, 100.0 * count / trials);
}

/// At most `share` but for Monte-Carlo error.
void expect_at_most(double share, int count, int trials) {
  EXPECT_LE(count, trials * share + kErrors * std::sqrt(trials * share * (1 - share)));
}
void expect_above(double share, int count, int trials) {
  EXPECT_GE(count, trials * share - kErrors * std::sqrt(trials * share * (1 - share)));
}

const std::vector<Target>& recall_target() {
  static const std::vector<Target> targets = targets_of({"recall>=0.9"});
  return targets;
}

/// n numbers of which each misses the target with probability `share`.
PromptNumbers draw(std::size_t n, double share, Random& random) {
  PromptNumbers numbers(n, std::vector<double>(1));
  for (std::vector<double>& prompt : numbers) prompt[0] = uniform(random) < share ? 0.5 : 1.0;
  return numbers;
}

// -- (a) a share of prompts that violates

TEST(Guarantees, ShareExactlyAtTheBorder) {
  Random random(1);
  constexpr int kTrials = 5000;
  for (const double beta : {0.1, 0.3})
    for (const std::size_t n : {10, 30, 100, 300}) {
      const Guarantee guarantee{.max_violating = beta};
      int certified = 0, refuted = 0;
      for (int trial = 0; trial < kTrials; ++trial) {
        const Certainty found = judge(draw(n, beta, random), recall_target(), guarantee).certainty;
        certified += found == Certainty::certified ? 1 : 0;
        refuted += found == Certainty::refuted ? 1 : 0;
      }
      report(beta < 0.2 ? "share 10 %, certified" : "share 30 %, certified", n, certified, kTrials);
      expect_at_most(kAlpha, certified, kTrials);
      expect_at_most(kAlpha, refuted, kTrials);
      // The test has power enough to see a level that is too large: it is the exact one.
      std::int64_t k = -1;
      while (binomial_cdf(k + 1, static_cast<std::int64_t>(n), beta) <= kAlpha) ++k;
      const double level = binomial_cdf(k, static_cast<std::int64_t>(n), beta);
      expect_at_most(level, certified, kTrials);
      expect_above(level, certified, kTrials);
    }
}

/// `share(s)` of the prompts violates at the setting s of 61, the safest first.
template <class Share>
void walk_grid(const char* what, Share share, bool correlated) {
  constexpr std::size_t kSettings = 61;
  constexpr int kTrials = 1500;
  constexpr double kBeta = 0.1;
  Random random(2);
  for (const std::size_t n : {30, 100, 300}) {
    int wrong = 0, best_of_all = 0;
    for (int trial = 0; trial < kTrials; ++trial) {
      std::vector<double> latent(n);
      for (double& u : latent) u = uniform(random);
      std::vector<Certainty> certainties;
      bool any = false;
      for (std::size_t s = 0; s < kSettings; ++s) {
        PromptNumbers numbers(n, std::vector<double>(1));
        for (std::size_t p = 0; p < n; ++p)
          numbers[p][0] = (correlated ? latent[p] : uniform(random)) < share(s) ? 0.5 : 1.0;
        certainties.push_back(judge(numbers, recall_target(), {.max_violating = kBeta}).certainty);
        any = any || (share(s) >= kBeta && certainties.back() == Certainty::certified);
      }
      const SequenceEnd end = end_of_sequence(certainties);
      wrong += end.passed && share(*end.passed) >= kBeta ? 1 : 0;
      best_of_all += any ? 1 : 0;
    }
    report(what, n, wrong, kTrials);
    report("  by choosing among all that pass", n, best_of_all, kTrials);
    // From the first setting at the border on each certificate is wrong, so that the sequence needs this one error.
    expect_at_most(kAlpha, wrong, kTrials);
    if (!correlated) expect_above(0.1, best_of_all, kTrials);
  }
}

TEST(Guarantees, GridByFixedSequence) {
  walk_grid(
      "61 correlated settings from 0.5 % to 20 %",
      [](std::size_t s) { return s < 15 ? 0.005 : 0.1 + 0.1 * static_cast<double>(s - 15) / 45; }, true);
  walk_grid(
      "61 independent settings, at 10 % from the 15th", [](std::size_t s) { return s < 15 ? 0.001 : 0.1; }, false);
  walk_grid(
      "61 independent settings, not monotone", [](std::size_t s) { return s % 3 == 2 ? 0.1 : 0.001; }, false);
}

// -- (b) skewed deficits whose clipped mean is on the target

constexpr double kSigma = 1.5;

/// E min(exp(1.5 z), clip)
double clipped_mean(double clip) {
  const auto below = [](double x) { return std::erfc(-x / std::sqrt(2.0)) / 2; };
  const double log_clip = std::log(clip) / kSigma;
  return std::exp(kSigma * kSigma / 2) * below(log_clip - kSigma) + clip * below(-log_clip);
}

/// The mean that ten times itself clips to itself.
double mean_on_target() {
  double low = 1, high = 4;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (clipped_mean(10 * middle) > middle ? low : high) = middle;
  }
  return low;
}

int false_certificates(MeanBound bound, std::size_t n, int trials, double mean, double clip, Random& random) {
  int certified = 0;
  std::vector<double> losses(n);
  for (int trial = 0; trial < trials; ++trial) {
    for (double& loss : losses) loss = std::min(std::exp(kSigma * normal(random)), clip) / clip;
    certified += mean_p_value(bound, losses, mean / clip, kAlpha, static_cast<std::uint64_t>(trial)) <= kAlpha ? 1 : 0;
  }
  return certified;
}

TEST(Guarantees, SkewedDeficitsWithTheirMeanOnTheTarget) {
  Random random(3);
  const double mean = mean_on_target(), clip = 10 * mean;
  std::printf("lognormal, sigma 1.5: clipped mean %.4f, clip %.4f\n", mean, clip);
  for (const std::size_t n : {8, 30, 100, 300}) {
    for (const MeanBound bound : {MeanBound::hb, MeanBound::wsr}) {
      constexpr int kTrials = 10'000;
      const int wrong = false_certificates(bound, n, kTrials, mean, clip, random);
      report(bound == MeanBound::hb ? "skewed deficits, hb" : "skewed deficits, wsr", n, wrong, kTrials);
      expect_at_most(kAlpha, wrong, kTrials);
    }
  }
}

TEST(Guarantees, TheBootstrapPassesSkewedDeficitsFarTooOften) {
  Random random(4);
  // Without a clip, as it would be used by hand.
  const double mean = std::exp(kSigma * kSigma / 2), clip = 1e9;
  const struct {
    std::size_t n;
    int trials;
    double minimum, maximum;
  } cases[] = {{8, 2000, 0.3, 0.42}, {32, 600, 0.18, 0.32}};
  for (const auto& [n, trials, minimum, maximum] : cases) {
    const int wrong = false_certificates(MeanBound::bootstrap, n, trials, mean, clip, random);
    report("skewed deficits, bootstrap", n, wrong, trials);
    EXPECT_GE(wrong, minimum * trials);
    EXPECT_LE(wrong, maximum * trials);
  }
}

// -- (c) families of many units

/// 1,024 units of pure noise: a unit misses the target at the setting s, the safest first, with probability q[s] in
/// every prompt, whatever the others do. The guarantee is of recall.min over all units, so that its truth is known.
struct NoiseModel {
  static constexpr std::size_t kUnits = 1024, kSettings = 8;
  std::vector<double> q;

  double share(const Assignment& assignment) const {
    double none = 0;
    for (const std::size_t setting : assignment)
      if (setting != kDense) none += std::log1p(-q[setting]);
    return -std::expm1(none);
  }
};

struct Prompts {
  std::vector<float> deficits;  ///< [prompt][unit][setting]: relative, above 1 misses
};

Prompts draw_units(const NoiseModel& model, std::size_t count, Random& random) {
  Prompts prompts;
  prompts.deficits.resize(count * NoiseModel::kUnits * NoiseModel::kSettings);
  std::size_t i = 0;
  for (std::size_t cell = 0; cell < count * NoiseModel::kUnits; ++cell)
    for (std::size_t s = 0; s < NoiseModel::kSettings; ++s) {
      // Pareto, of which the share q is above 1.
      const double u = uniform(random);
      prompts.deficits[i++] = static_cast<float>(model.q[s] / (u + 1e-300));
    }
  return prompts;
}

TEST(Guarantees, FamiliesOfNoiseHeads) {
  constexpr std::size_t kUnits = NoiseModel::kUnits, kSettings = NoiseModel::kSettings, kPrompts = 30;
  constexpr int kTrials = 250;
  Random random(5);
  NoiseModel model;
  // With all units at it, a setting violates for 0.5 % to 80 % of the prompts.
  for (const double share : {0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.8})
    model.q.push_back(-std::expm1(std::log1p(-share) / static_cast<double>(kUnits)));
  std::vector<Unit> units;
  for (std::size_t u = 0; u < kUnits; ++u)
    units.push_back({u / 8, static_cast<int>(u % 8), static_cast<std::int64_t>(4 * (u % 8)), 4});
  std::vector<std::size_t> order(kSettings);
  for (std::size_t s = 0; s < kSettings; ++s) order[s] = s;

  int wrong = 0, certified = 0, wrong_on_the_same = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    const Prompts choosing = draw_units(model, kPrompts, random), certifying = draw_units(model, kPrompts, random);
    UnitLosses losses{kSettings, std::vector<double>(kUnits * kSettings), {}, std::vector<double>(kUnits * kSettings)};
    for (std::size_t i = 0; i < kUnits * kSettings; ++i) {
      losses.io[i] = 1 - 0.1 * static_cast<double>(i % kSettings + 1);
      for (std::size_t p = 0; p < kPrompts; ++p)
        losses.worst[i] = std::max(losses.worst[i], static_cast<double>(choosing.deficits[p * kUnits * kSettings + i]));
    }
    const std::vector<FamilyMember> family = make_family(losses, units, order, 100);
    const auto certificate = [&](const Prompts& prompts) {
      std::vector<Certainty> certainties;
      for (const FamilyMember& member : family) {
        PromptNumbers numbers(kPrompts, {1.0});
        for (std::size_t p = 0; p < kPrompts; ++p)
          for (std::size_t u = 0; u < kUnits; ++u)
            if (member.assignment[u] != kDense &&
                prompts.deficits[(p * kUnits + u) * kSettings + member.assignment[u]] > 1)
              numbers[p][0] = 0.5;
        certainties.push_back(judge(numbers, recall_target(), {}).certainty);
        if (certainties.back() != Certainty::certified) break;
      }
      return end_of_sequence(certainties).passed;
    };
    if (const auto end = certificate(certifying)) {
      ++certified;
      wrong += model.share(family[*end].assignment) > 0.1 ? 1 : 0;
    }
    if (const auto end = certificate(choosing)) wrong_on_the_same += model.share(family[*end].assignment) > 0.1 ? 1 : 0;
  }
  report("1,024 noise heads, certified", kPrompts, certified, kTrials);
  report("1,024 noise heads, wrongly certified", kPrompts, wrong, kTrials);
  report("  on the prompts that chose", kPrompts, wrong_on_the_same, kTrials);
  expect_at_most(kAlpha, wrong, kTrials);
  EXPECT_GT(wrong_on_the_same, kTrials / 4)
      << "the simulation would not see a family that is judged where it was chosen";
}

// -- (d) power

TEST(Guarantees, BettingSeesSmallVarianceEarly) {
  Random random(6);
  constexpr int kTrials = 400;
  const std::vector<Target> targets = targets_of({"recall>=0.99"});
  for (const auto& [n, mean] : {std::pair<std::size_t, double>{100, 0.6}, {300, 0.8}}) {
    int certified[2] = {0, 0};
    for (int trial = 0; trial < kTrials; ++trial) {
      PromptNumbers numbers(n, std::vector<double>(1));
      // Deficits within 20 % of 60 % or 80 % of what is allowed.
      for (std::vector<double>& prompt : numbers) prompt[0] = 1 - 0.01 * mean * (0.8 + 0.4 * uniform(random));
      for (const MeanBound bound : {MeanBound::hb, MeanBound::wsr})
        certified[bound == MeanBound::wsr] +=
            judge(numbers, targets, {.kind = GuaranteeKind::mean, .bound = bound}).certainty == Certainty::certified
                ? 1
                : 0;
    }
    report("small variance, hb certifies", n, certified[0], kTrials);
    report("small variance, wsr certifies", n, certified[1], kTrials);
    EXPECT_EQ(certified[1], kTrials);
    EXPECT_EQ(certified[0], 0);
  }
}

/// One prompt of 60 is far off: the sequence of bets still certifies a mean well below what is allowed.
TEST(Guarantees, BettingSurvivesOneLargeLoss) {
  Random random(7);
  const std::vector<Target> targets = targets_of({"recall>=0.99"});
  int certified = 0;
  for (int trial = 0; trial < 200; ++trial) {
    PromptNumbers numbers(100, {0.9999});
    numbers[random() % 100][0] = 0.9;
    certified += judge(numbers, targets, {.kind = GuaranteeKind::mean}).certainty == Certainty::certified ? 1 : 0;
  }
  report("one loss of 1 among 100, wsr certifies", 100, certified, 200);
  EXPECT_GE(certified, 190);
}

// -- (e) several targets

/// Span recall counts for a third of the prompts and is on the border there; recall is sound.
TEST(Guarantees, SeveralTargetsWithDifferentPrompts) {
  Random random(8);
  constexpr int kTrials = 4000;
  const std::vector<Target> targets = targets_of({"recall>=0.9", "span_recall>=0.9"});
  for (const std::size_t n : {90, 300}) {
    int wrong = 0, on_the_border_together = 0, refuted = 0;
    for (int trial = 0; trial < kTrials; ++trial) {
      PromptNumbers numbers(n, std::vector<double>(2, 1.0)), both = numbers;
      for (std::size_t p = 0; p < n; ++p) {
        const bool counts = uniform(random) < 1.0 / 3;
        numbers[p][1] = counts ? (uniform(random) < 0.1 ? 0.5 : 1.0) : std::nan("");
        // Either misses for 5 % of the prompts, never both.
        const double u = uniform(random);
        both[p] = {u < 0.05 ? 0.5 : 1.0, u >= 0.05 && u < 0.1 ? 0.5 : 1.0};
      }
      wrong += judge(numbers, targets, {}).certainty == Certainty::certified ? 1 : 0;
      const Certainty found = judge(both, targets, {}).certainty;
      on_the_border_together += found == Certainty::certified ? 1 : 0;
      refuted += found == Certainty::refuted ? 1 : 0;
    }
    report("a target of a third of the prompts, on the border", n, wrong, kTrials);
    report("two targets, together on the border", n, on_the_border_together, kTrials);
    expect_at_most(kAlpha, wrong, kTrials);
    expect_at_most(kAlpha, on_the_border_together, kTrials);
    expect_at_most(kAlpha, refuted, kTrials);
  }
}

/// Refutation of a guarantee that holds, of two targets with different prompts, both on the border.
TEST(Guarantees, RefutationOfSeveralTargets) {
  Random random(9);
  constexpr int kTrials = 4000;
  const std::vector<Target> targets = targets_of({"recall>=0.9", "span_recall>=0.9"});
  int refuted = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    PromptNumbers numbers(100, std::vector<double>(2, std::nan("")));
    for (std::size_t p = 0; p < 100; ++p) numbers[p][p % 2] = uniform(random) < 0.1 ? 0.5 : 1.0;
    refuted += judge(numbers, targets, {}).certainty == Certainty::refuted ? 1 : 0;
  }
  report("two targets of half the prompts each, refuted", 100, refuted, kTrials);
  expect_at_most(kAlpha, refuted, kTrials);
}

}  // namespace
}  // namespace attest
