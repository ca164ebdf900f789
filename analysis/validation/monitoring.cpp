// Feeds prompts to the martingales.
#include "analysis/validation/monitoring.h"

#include <algorithm>
#include <cmath>

#include "analysis/statistics/martingale.h"

namespace attest {
namespace {

/// How far a prompt is from its targets: the largest relative deficit. Nothing if it counts for none of them.
std::optional<double> distance(std::span<const double> numbers, std::span<const Target> targets) {
  std::optional<double> worst;
  for (std::size_t t = 0; t < targets.size(); ++t)
    if (!std::isnan(numbers[t])) worst = std::max(worst.value_or(0), targets[t].relative_deficit(numbers[t]));
  return worst;
}

void look(SequentialTest& test, double log_largest, std::size_t prompt, double alpha) {
  test.evidence = std::min(std::exp(log_largest), kMaxEvidence);
  if (!test.alarm && log_largest >= -std::log(alpha)) test.alarm = prompt;
}

/// What the guarantee allows: a share of violating prompts, or the mean loss of each target. The capital of several is
/// their mean, which is a fair game where all of them are.
class GuaranteeTest {
 public:
  GuaranteeTest(std::span<const Target> targets, const Guarantee& guarantee)
      : targets_(targets), guarantee_(guarantee) {
    if (guarantee.kind != GuaranteeKind::mean) {
      games_.emplace_back(guarantee.max_violating);
      return;
    }
    for (const Target& target : targets) games_.emplace_back(target.allowed_deficit() / guarantee.clip_of(target));
  }

  void add(std::span<const double> numbers, bool violates) {
    if (guarantee_.kind != GuaranteeKind::mean) {
      games_.front().add(violates ? 1 : 0);
    } else {
      for (std::size_t t = 0; t < targets_.size(); ++t)
        if (!std::isnan(numbers[t])) {
          const double clip = guarantee_.clip_of(targets_[t]);
          games_[t].add(std::min(targets_[t].deficit(numbers[t]), clip) / clip);
        }
    }
    double capital = 0;
    for (const LossMartingale& game : games_) capital += std::exp(game.log_capital());
    largest_ = std::max(largest_, std::log(capital / static_cast<double>(games_.size())));
  }
  double log_largest() const { return largest_; }

 private:
  std::span<const Target> targets_;
  const Guarantee& guarantee_;
  std::vector<LossMartingale> games_;
  double largest_ = 0;
};

}  // namespace

Monitoring monitor(const PromptNumbers& certified, const PromptNumbers& later, std::span<const Target> targets,
                   const Guarantee& guarantee) {
  std::vector<double> before;
  for (const std::vector<double>& prompt : certified)
    if (const std::optional<double> found = distance(prompt, targets)) before.push_back(*found);
  DriftMartingale drift(before, guarantee.seed);
  GuaranteeTest test(targets, guarantee);
  Monitoring monitoring;
  for (std::size_t p = 0; p < later.size(); ++p) {
    const std::optional<double> found = distance(later[p], targets);
    if (!found) continue;
    const bool violates = std::ranges::any_of(targets, [&, t = std::size_t{0}](const Target& target) mutable {
      const double x = later[p][t++];
      return !std::isnan(x) && !target.is_met_by(x);
    });
    ++monitoring.prompts;
    monitoring.violations += violates ? 1 : 0;
    test.add(later[p], violates);
    drift.add(*found);
    look(monitoring.guarantee, test.log_largest(), p, guarantee.alpha());
    look(monitoring.drift, drift.log_largest(), p, guarantee.alpha());
  }
  monitoring.worse = drift.grows();
  return monitoring;
}

}  // namespace attest
