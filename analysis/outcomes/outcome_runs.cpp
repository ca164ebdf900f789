// Gathers runs and their numbers.
#include "analysis/outcomes/outcome_runs.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "dumps/base/parallel_for.h"
#include "kernels/base/not_defined.h"

namespace attest {
namespace {

std::size_t index_in(std::vector<std::string>& list, const std::string& name) {
  const auto found = std::ranges::find(list, name);
  if (found != list.end()) return static_cast<std::size_t>(found - list.begin());
  list.push_back(name);
  return list.size() - 1;
}

}  // namespace

std::optional<std::size_t> OutcomeRuns::find(std::string_view predictor) const {
  const auto found = std::ranges::find(predictors, predictor, &Predictor::name);
  if (found == predictors.end()) return std::nullopt;
  return static_cast<std::size_t>(found - predictors.begin());
}

OutcomeRuns outcome_runs(const JoinedAnswers& joined, int threads) {
  std::vector<std::vector<PredictorValues>> values(joined.prompts.size());
  parallel_for(threads, values.size(),
               [&](int, std::size_t i) { values[i] = predictor_values(joined.prompts[i].prompt); });
  OutcomeRuns all;
  for (const std::vector<PredictorValues>& of_prompt : values)
    for (const PredictorValues& one : of_prompt)
      if (!all.find(one.predictor.name)) all.predictors.push_back(one.predictor);
  std::map<std::string, std::size_t> prompts;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const AnsweredPrompt& prompt = joined.prompts[i];
    const auto [number, is_new] = prompts.try_emplace(prompt.prompt.name, all.prompts.size());
    if (is_new) all.prompts.push_back(prompt.prompt.name);
    OutcomeRun run{.model = index_in(all.models, prompt.model),
                   .prompt = number->second,
                   .label = index_in(all.labels, prompt.selector().label),
                   .selector = index_in(all.selectors, prompt.selector().name),
                   .values = {}};
    for (const AnsweredPrompt::Answer& answer : prompt.answers) {
      run.failed = answer.failed;
      run.values.assign(all.predictors.size(), kNaN);
      for (const PredictorValues& one : values[i])
        run.values[*all.find(one.predictor.name)] = one.values[answer.setting];
      all.runs.push_back(run);
    }
  }
  return all;
}

bool OutcomeCounts::enough() const {
  return std::min(failures, successes) >= kFewestRuns && std::min(failed_prompts, right_prompts) >= kFewestPrompts;
}

OutcomeCounts count_outcomes(std::span<const ScoredOutcome> outcomes) {
  OutcomeCounts counts;
  std::set<std::size_t> failed, right;
  for (const ScoredOutcome& outcome : outcomes) {
    ++(outcome.failed ? counts.failures : counts.successes);
    (outcome.failed ? failed : right).insert(outcome.cluster);
  }
  counts.failed_prompts = static_cast<std::int64_t>(failed.size());
  counts.right_prompts = static_cast<std::int64_t>(right.size());
  return counts;
}

OutcomeCounts count_outcomes(const OutcomeRuns& all, std::span<const std::size_t> runs) {
  std::vector<ScoredOutcome> outcomes;
  for (const std::size_t r : runs) outcomes.push_back({.failed = all.runs[r].failed, .cluster = all.runs[r].prompt});
  return count_outcomes(outcomes);
}

std::vector<ScoredOutcome> scored(const OutcomeRuns& all, std::size_t predictor, std::span<const std::size_t> runs,
                                  bool by_label) {
  std::vector<ScoredOutcome> outcomes;
  for (const std::size_t r : runs) {
    const OutcomeRun& run = all.runs[r];
    if (std::isnan(run.values[predictor])) continue;
    outcomes.push_back({.score = all.predictors[predictor].score(run.values[predictor]),
                        .failed = run.failed,
                        .cluster = run.prompt,
                        .stratum = by_label ? run.label : 0});
  }
  return outcomes;
}

}  // namespace attest
