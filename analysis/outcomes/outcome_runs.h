// The runs from which predictors of failure are judged: a prompt answered through a selector at a setting, with the
// numbers that its cells give.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/outcomes/predictors.h"
#include "analysis/statistics/auc.h"

namespace attest {

struct OutcomeRun {
  std::size_t model = 0, prompt = 0, label = 0, selector = 0;  ///< indices into the lists of OutcomeRuns
  bool failed = false;
  std::vector<double> values;  ///< [predictor]; NaN where a predictor is not defined
};

struct OutcomeRuns {
  /// `prompts` are names: the prompts of one name that several models answered are one cluster, since what makes a
  /// prompt hard does so for all. `selectors` are registered names, the families of the labels.
  std::vector<std::string> models, prompts, labels, selectors;
  std::vector<Predictor> predictors;
  std::vector<OutcomeRun> runs;

  std::optional<std::size_t> find(std::string_view predictor) const;
};

/// Reads the cells of all answered prompts, on a few threads.
OutcomeRuns outcome_runs(const JoinedAnswers& joined, int threads);

/// Fewer failures or successes than this, or of fewer prompts, and there is no number.
inline constexpr std::int64_t kFewestRuns = 10, kFewestPrompts = 5;

/// Failures and successes among runs, and the prompts that have any.
struct OutcomeCounts {
  std::int64_t failures = 0, successes = 0;
  std::int64_t failed_prompts = 0, right_prompts = 0;

  bool enough() const;
};
OutcomeCounts count_outcomes(const OutcomeRuns& all, std::span<const std::size_t> runs);
OutcomeCounts count_outcomes(std::span<const ScoredOutcome> outcomes);

/// Those of `runs` for which the predictor is defined. Prompts are the clusters; strata are the labels, or one.
std::vector<ScoredOutcome> scored(const OutcomeRuns& all, std::size_t predictor, std::span<const std::size_t> runs,
                                  bool by_label = false);

}  // namespace attest
