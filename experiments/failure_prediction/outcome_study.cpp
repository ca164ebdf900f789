// Joins results and answers, and names them.
#include "experiments/failure_prediction/outcome_study.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <optional>

#include "analysis/outcomes/combination.h"
#include "dumps/base/join.h"
#include "experiments/study_view/model_study.h"
#include "experiments/study_view/words.h"

namespace attest {
namespace {

std::vector<std::size_t> found_in(const OutcomeRuns& all, std::initializer_list<const char*> names) {
  std::vector<std::size_t> found;
  for (const char* name : names)
    if (const std::optional<std::size_t> index = all.find(name)) found.push_back(*index);
  return found;
}

}  // namespace

std::string OutcomeStudy::title() const { return join(all.models, "; "); }

OutcomeStudy outcome_study(ResultsFiles results, const std::vector<TasksFile>& tasks, int threads) {
  const JoinedAnswers joined = join_answers(results, tasks);
  OutcomeStudy study{.joined = joined.counts, .all = outcome_runs(joined, threads), .source = {}};
  add_combinations(study.all);
  std::vector<std::string> studied, answered;
  for (const ResultsFile* file : results) studied.push_back(file->path());
  for (const TasksFile& file : tasks) answered.push_back(file.path);
  study.source = fmt::format("{}, {} of {}, results {}, tasks {}", study.title(),
                             counted(static_cast<std::int64_t>(study.all.runs.size()), "run"),
                             counted(static_cast<std::int64_t>(study.all.prompts.size()), "prompt"),
                             sources_in_words(studied, threads), sources_in_words(answered, threads));
  return study;
}

std::vector<OutcomeScope> scopes_of(const OutcomeRuns& all) {
  std::vector<OutcomeScope> scopes{{"all", {}}};
  for (const std::string& selector : all.selectors) scopes.push_back({selector, {}});
  if (all.models.size() > 1)
    for (const std::string& model : all.models) scopes.push_back({"model " + model, {}});
  for (std::size_t r = 0; r < all.runs.size(); ++r) {
    scopes[0].runs.push_back(r);
    scopes[1 + all.runs[r].selector].runs.push_back(r);
    if (all.models.size() > 1) scopes[1 + all.selectors.size() + all.runs[r].model].runs.push_back(r);
  }
  return scopes;
}

std::vector<std::size_t> shown_predictors(const OutcomeRuns& all) {
  return found_in(all, {"combination_spans", "span_error.max", "span_recall.min", "span_share_kept",
                        "model_span_lost.max", "weighted_error.max", "predicted_margin.min", "combination",
                        "lse_error.max", "mass_recall.min", "recall.min", "recall.mean"});
}

std::vector<std::size_t> told_predictors(const OutcomeRuns& all) {
  return found_in(all, {"combination_spans", "span_error.max", "span_recall.min", "weighted_error.max",
                        "predicted_margin.min", "combination", "lse_error.max"});
}

std::vector<std::size_t> ordered_predictors(const OutcomeRuns& all, const std::vector<double>& aucs) {
  std::vector<std::size_t> order(all.predictors.size());
  for (std::size_t p = 0; p < order.size(); ++p) order[p] = p;
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    if (all.predictors[a].needs_spans != all.predictors[b].needs_spans) return all.predictors[a].needs_spans;
    return std::isnan(aucs[b]) ? !std::isnan(aucs[a]) : aucs[a] > aucs[b];
  });
  return order;
}

std::string run_words() {
  return "A run is a prompt answered through a selector at a setting; it failed if dense attention answers right and "
         "the run wrong.";
}

std::string interval_words() { return "Intervals are cluster bootstraps over prompts (95 %, percentiles)."; }

std::string fewest_words() {
  return fmt::format(
      "No number stands for fewer than {} failures or right runs, or for those of fewer than {} prompts.", kFewestRuns,
      kFewestPrompts);
}

}  // namespace attest
