// Numbers of prompts as losses, and tests of their mean.
#include "analysis/validation/guarantee_tests.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

#include "analysis/statistics/shuffle.h"

namespace attest {

std::vector<double> counted(const PromptNumbers& numbers, std::size_t target) {
  std::vector<double> values;
  for (const std::vector<double>& prompt : numbers)
    if (!std::isnan(prompt[target])) values.push_back(prompt[target]);
  return values;
}

std::vector<double> losses_of(std::span<const double> values, const Target& target, double clip) {
  std::vector<double> losses;
  for (const double x : values) losses.push_back(std::min(target.deficit(x), clip) / clip);
  return losses;
}

double mean_p(std::vector<double> losses, double allowed, const Guarantee& guarantee) {
  std::mt19937_64 random(guarantee.seed);
  shuffle(losses, random);  // the order in which `wsr` bets: one that the data do not choose
  return mean_p_value(guarantee.bound, losses, allowed, guarantee.alpha(), guarantee.seed);
}

double mirrored_p(std::vector<double> losses, double allowed, const Guarantee& guarantee) {
  for (double& loss : losses) loss = 1 - loss;
  return mean_p(std::move(losses), 1 - allowed, guarantee);
}

double refuting_level(const Evidence& evidence, const Guarantee& guarantee) {
  if (guarantee.kind == GuaranteeKind::mean) return guarantee.alpha() / static_cast<double>(evidence.targets.size());
  // Where all prompts count for a target, its violations are among those of all targets together.
  const auto own = std::ranges::count_if(
      evidence.targets, [&](const TargetEvidence& target) { return target.prompts < evidence.prompts; });
  return guarantee.alpha() / static_cast<double>(1 + own);
}

bool within(std::int64_t k, std::int64_t n, double share) {
  return static_cast<double>(k) <= share * static_cast<double>(n) + 1e-9;
}

}  // namespace attest
