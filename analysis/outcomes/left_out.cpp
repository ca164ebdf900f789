// Leaves out one part after the other.
#include "analysis/outcomes/left_out.h"

#include <cmath>
#include <utility>

#include "analysis/outcomes/combination.h"
#include "analysis/statistics/quantile.h"
#include "kernels/base/not_defined.h"

namespace attest {
namespace {

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
  const bool by_selector = kind != LeftOutKind::model, by_model = kind != LeftOutKind::selector;
  const std::size_t selectors = by_selector ? all.selectors.size() : 1, models = by_model ? all.models.size() : 1;
  std::vector<LeftOutPart> parts;
  if ((by_selector && selectors < 2) || (by_model && models < 2)) return parts;
  const std::vector<std::size_t> fold = prompt_folds(all.prompts.size());
  LeftOutPart together{.part = {}, .auc = {}, .counts = {}};
  together.thresholds.fill(kNaN);
  std::vector<ScoredOutcome> everything;
  for (std::size_t part = 0; part < selectors * models; ++part) {
    const std::size_t selector = part % selectors, model = part / selectors;
    LeftOutPart result{.part = !by_model      ? all.selectors[selector]
                               : !by_selector ? all.models[model]
                                              : all.selectors[selector] + " on " + all.models[model],
                       .auc = {},
                       .counts = {}};
    std::vector<ScoredOutcome> judged;
    std::array<std::vector<double>, kCatch.size()> thresholds;
    for (std::size_t f = 0; f < kFolds; ++f) {
      std::vector<std::size_t> own, others;
      for (std::size_t r = 0; r < all.runs.size(); ++r) {
        const OutcomeRun& run = all.runs[r];
        const bool same_selector = by_selector && run.selector == selector, same_model = by_model && run.model == model;
        if (fold[run.prompt] == f && same_selector == by_selector && same_model == by_model) own.push_back(r);
        if (fold[run.prompt] != f && !same_selector && !same_model) others.push_back(r);
      }
      const std::vector<ScoredOutcome> outcomes = scored_from(all, predictor, others, own),
                                       learnt = scored_from(all, predictor, others, others);
      judged.insert(judged.end(), outcomes.begin(), outcomes.end());
      if (!count_outcomes(learnt).enough()) continue;
      for (std::size_t g = 0; g < kCatch.size(); ++g) {
        thresholds[g].push_back(threshold_that_catches(learnt, kCatch[g]));
        result.alarms[g] += alarms_at(outcomes, thresholds[g].back());
        together.alarms[g] += alarms_at(outcomes, thresholds[g].back());
      }
      everything.insert(everything.end(), outcomes.begin(), outcomes.end());
    }
    for (std::size_t g = 0; g < kCatch.size(); ++g) result.thresholds[g] = quantile(std::move(thresholds[g]), 0.5);
    result.counts = count_outcomes(judged);
    result.auc = auc_if_enough(judged, result.counts);
    parts.push_back(std::move(result));
  }
  together.counts = count_outcomes(everything);
  together.auc = auc_if_enough(everything, together.counts);
  parts.push_back(std::move(together));
  return parts;
}

}  // namespace attest
