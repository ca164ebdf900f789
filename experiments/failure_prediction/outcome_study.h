// What the tables and figures of failure_prediction are made of: joined runs with their predictors, and how they are
// named.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "analysis/outcomes/outcome_join.h"
#include "analysis/outcomes/outcome_runs.h"

namespace attest {

struct OutcomeStudy {
  JoinCounts joined;
  OutcomeRuns all;     ///< with the combinations
  std::string source;  ///< models, runs, prompts and files, for captions

  std::string title() const;  ///< "A; B": the models
};

OutcomeStudy outcome_study(ResultsFiles results, const std::vector<TasksFile>& tasks, int threads);

/// Runs that are judged together: all, those of one selector, whatever its label, or of one of several models.
struct OutcomeScope {
  std::string name;  ///< "all", "ffd", "model tiny"
  std::vector<std::size_t> runs;
};
std::vector<OutcomeScope> scopes_of(const OutcomeRuns& all);

/// Indices of the predictors that figures and findings are about, as far as the results have them; those that need
/// spans come first. The list is fixed, so that nothing is chosen by its success.
std::vector<std::size_t> shown_predictors(const OutcomeRuns& all);

/// The few of these for which findings say what a threshold does elsewhere.
std::vector<std::size_t> told_predictors(const OutcomeRuns& all);

/// All predictors: those that need spans, then the others, each by falling AUC over all runs (NaN last).
std::vector<std::size_t> ordered_predictors(const OutcomeRuns& all, const std::vector<double>& aucs);

/// Sentences of captions: what a run is, what intervals are, how many outcomes a number takes.
std::string run_words();
std::string interval_words();
std::string fewest_words();

}  // namespace attest
