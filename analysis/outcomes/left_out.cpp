// Leaves out one part after the other.
#include "analysis/outcomes/left_out.h"

#include <cmath>
#include <limits>

#include "analysis/outcomes/combination.h"

namespace attest {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

Auc auc_if_enough(std::span<const ScoredOutcome> outcomes, const OutcomeCounts& counts) {
  if (counts.enough()) return auc_interval(outcomes);
  return {.value = kNaN, .low = kNaN, .high = kNaN};
}

/// The outcomes of `runs` scored by the predictor; a combination is learnt from the runs `from`.
std::vector<ScoredOutcome> scored_from(const OutcomeRuns& all, std::size_t predictor, std::span<const std::size_t> from,
                                       std::span<const std::size_t> runs) {
  const Combination* combination = find_combination(all.predictors[predictor].name);
  if (combination == nullptr) return scored(all, predictor, runs);
  const std::vector<double> chances = predicted(all, *combination, from, runs);
  std::vector<ScoredOutcome> outcomes;
  for (std::size_t i = 0; i < runs.size(); ++i)
    if (!std::isnan(chances[i]))
      outcomes.push_back(
          {.score = chances[i], .failed = all.runs[runs[i]].failed, .cluster = all.runs[runs[i]].prompt});
  return outcomes;
}

}  // namespace

std::vector<LeftOutPart> leave_out(const OutcomeRuns& all, std::size_t predictor, LeftOutKind kind) {
  const std::vector<std::string>& names = kind == LeftOutKind::selector ? all.selectors : all.models;
  std::vector<LeftOutPart> parts;
  if (names.size() < 2) return parts;
  LeftOutPart together{.part = {}, .auc = {}, .counts = {}};
  together.thresholds.fill(kNaN);
  std::vector<ScoredOutcome> everything;
  for (std::size_t part = 0; part < names.size(); ++part) {
    std::vector<std::size_t> own, others;
    for (std::size_t r = 0; r < all.runs.size(); ++r)
      ((kind == LeftOutKind::selector ? all.runs[r].selector : all.runs[r].model) == part ? own : others).push_back(r);
    const std::vector<ScoredOutcome> outcomes = scored_from(all, predictor, others, own),
                                     learnt = scored_from(all, predictor, others, others);
    LeftOutPart result{.part = names[part], .auc = {}, .counts = count_outcomes(outcomes)};
    result.auc = auc_if_enough(outcomes, result.counts);
    const bool can_learn = count_outcomes(learnt).enough();
    for (std::size_t g = 0; g < kCatch.size(); ++g) {
      result.thresholds[g] = can_learn ? threshold_that_catches(learnt, kCatch[g]) : kNaN;
      if (!can_learn) continue;
      result.alarms[g] = alarms_at(outcomes, result.thresholds[g]);
      together.alarms[g] += result.alarms[g];
    }
    if (can_learn) everything.insert(everything.end(), outcomes.begin(), outcomes.end());
    parts.push_back(std::move(result));
  }
  together.counts = count_outcomes(everything);
  together.auc = auc_if_enough(everything, together.counts);
  parts.push_back(std::move(together));
  return parts;
}

}  // namespace attest
