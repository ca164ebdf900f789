// A guarantee that is used later: false alarms by simulation, and what is noticed.
#include "analysis/validation/monitoring.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "tests/analysis/validation/made_results.h"

namespace attest {
namespace {

using test::targets_of;

double uniform(std::mt19937_64& random) { return (static_cast<double>(random() >> 11) + 0.5) * 0x1p-53; }

/// Of each prompt a latent number: it violates if that is below `share`; else its recall falls with it.
PromptNumbers draw(std::size_t n, double share, std::mt19937_64& random) {
  PromptNumbers numbers;
  for (std::size_t i = 0; i < n; ++i) {
    const double u = uniform(random);
    numbers.push_back({u < share ? 0.5 : 0.99 + 0.01 * u, uniform(random) < 0.3 ? std::nan("") : 0.0});
  }
  return numbers;
}

const std::vector<Target>& targets() {
  static const std::vector<Target> list = targets_of({"recall>=0.9", "lse_error<=0.1"});
  return list;
}

struct Alarms {
  double guarantee = 0, drift = 0;
};

Alarms alarms(double certified, double later, const Guarantee& guarantee) {
  constexpr int kTrials = 1500;
  Alarms found;
  for (int trial = 0; trial < kTrials; ++trial) {
    std::mt19937_64 random(static_cast<std::uint64_t>(trial));
    const PromptNumbers before = draw(60, certified, random), after = draw(150, later, random);
    const Monitoring monitoring = monitor(before, after, targets(), guarantee);
    found.guarantee += monitoring.guarantee.alarm ? 1.0 / kTrials : 0;
    found.drift += monitoring.drift.alarm ? 1.0 / kTrials : 0;
  }
  return found;
}

const double kMax = 0.05 + 4 * std::sqrt(0.05 * 0.95 / 1500);

TEST(Monitoring, EvidenceStaysANumber) {
  const Guarantee guarantee{.max_violating = 0.001};
  std::mt19937_64 random(1);
  const Monitoring seen = monitor(draw(60, 0, random), draw(1200, 1, random), targets(), guarantee);
  EXPECT_EQ(seen.guarantee.evidence, kMaxEvidence);
  EXPECT_TRUE(std::isfinite(seen.drift.evidence));
}

TEST(Monitoring, FalseAlarmsStayWithinTheLevel) {
  const Alarms exact = alarms(0.1, 0.1, {});  // exactly what is allowed, and the same prompts as before
  EXPECT_LE(exact.guarantee, kMax);
  EXPECT_LE(exact.drift, kMax);
  // Of means: the mean loss of the first target is what is allowed, that of the second nothing.
  const Guarantee mean{.kind = GuaranteeKind::mean, .clip = 1};
  const double allowed = 0.1, rest = 0.0055;  // the mean deficit of those that do not violate, about
  EXPECT_LE(alarms(0.1, (allowed - rest) / 0.5, mean).guarantee, kMax);
}

/// The prompts that certify are those that chose the setting, so that they look a little better there than later ones:
/// that is no drift.
TEST(Monitoring, ChoosingASettingIsNoDrift) {
  constexpr int kTrials = 600;
  int recommended = 0, guarantee = 0, drift = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    std::mt19937_64 random(static_cast<std::uint64_t>(trial));
    // At the setting s the deficit of a prompt is its own number times 1.1^s, the safest first.
    const auto at = [](double deficit, int s) { return 1 - 0.01 * deficit * std::pow(1.1, s); };
    std::vector<double> certifying(60), later(150);
    for (std::vector<double>* prompts : {&certifying, &later})
      for (double& deficit : *prompts) deficit = std::pow(uniform(random), 3);
    const auto numbers = [&](const std::vector<double>& deficits, int s) {
      PromptNumbers found;
      for (const double deficit : deficits) found.push_back({at(deficit, s), 0});
      return found;
    };
    int last = -1;
    while (last < 60 && judge(numbers(certifying, last + 1), targets(), {}).certainty == Certainty::certified) ++last;
    if (last < 0) continue;
    ++recommended;
    const Monitoring seen = monitor(numbers(certifying, last), numbers(later, last), targets(), {});
    guarantee += seen.guarantee.alarm ? 1 : 0;
    drift += seen.drift.alarm ? 1 : 0;
  }
  ASSERT_GT(recommended, kTrials / 2);
  const double maximum = 0.05 * kTrials + 4 * std::sqrt(0.05 * 0.95 * kTrials);
  EXPECT_LE(guarantee, maximum);
  EXPECT_LE(drift, maximum);
}

TEST(Monitoring, SeesWhatHasChanged) {
  EXPECT_GE(alarms(0.02, 0.35, {}).guarantee, 0.95);
  EXPECT_GE(alarms(0.02, 0.35, {}).drift, 0.6);
  // Prompts that drift and still keep the guarantee: the two are told apart.
  PromptNumbers before, after;
  std::mt19937_64 random(3);
  for (int i = 0; i < 60; ++i) before.push_back({0.999 + 0.001 * uniform(random), 0});
  for (int i = 0; i < 60; ++i) after.push_back({0.95 + 0.01 * uniform(random), 0});
  const Monitoring worse = monitor(before, after, targets(), {});
  EXPECT_FALSE(worse.guarantee.alarm);
  EXPECT_TRUE(worse.drift.alarm && worse.worse);
  EXPECT_LT(*worse.drift.alarm, 20u);
  const Monitoring better = monitor(after, before, targets(), {});
  EXPECT_TRUE(better.drift.alarm && !better.worse);
}

TEST(Monitoring, PromptsWithoutNumbersDoNotCount) {
  const double nan = std::nan("");
  const Monitoring monitoring = monitor({{1, 0}}, {{nan, nan}, {0.5, nan}, {1, 0.2}, {1, 0}}, targets(), {});
  EXPECT_EQ(monitoring.prompts, 3);
  EXPECT_EQ(monitoring.violations, 2);
}

}  // namespace
}  // namespace attest
