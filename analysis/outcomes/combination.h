// A few predictors in one: the chance of a failure by logistic regression, learnt from other runs than it is judged by.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "analysis/outcomes/outcome_runs.h"

namespace attest {

/// A fixed list, chosen on the outcomes in experiments/failure_prediction/EXAMPLE.md. What the results lack is left out
/// of it.
struct Combination {
  std::string name;
  bool needs_spans = false;
  std::vector<std::string> predictors;
};
const std::vector<Combination>& all_combinations();

/// The combination of that name; null for a predictor that is none.
const Combination* find_combination(std::string_view name);

/// Learns from the runs `from` and predicts the runs `of`; NaN where one of the predictors is not defined, everywhere
/// if `from` has too few failures or successes (kFewestRuns). Deficits and errors enter as logarithms. [of]
std::vector<double> predicted(const OutcomeRuns& all, const Combination& combination, std::span<const std::size_t> from,
                              std::span<const std::size_t> of);

inline constexpr std::size_t kFolds = 5;

/// The fold of each prompt, whatever its runs, by a seeded shuffle. [prompts]
std::vector<std::size_t> prompt_folds(std::size_t prompts, std::uint64_t seed = BootstrapOptions{}.seed);

/// Adds a predictor for each combination that has two of its predictors, and one of spans if it needs them. A run's
/// value is learnt from the prompts of the other folds.
void add_combinations(OutcomeRuns& all, std::uint64_t seed = BootstrapOptions{}.seed);

}  // namespace attest
