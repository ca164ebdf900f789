// Thresholds and combinations learnt without a part of the runs, and judged by that part: the runs of a selector, of a
// model, or of a selector on a model, fold by fold of the prompts. What makes a prompt hard does so under every
// selector and for every model, so that a prompt that judges never teaches.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "analysis/outcomes/outcome_runs.h"
#include "analysis/statistics/alarm.h"

namespace attest {

/// What is left out together with the prompts. `both`: those who teach have neither the selector nor the model.
enum class LeftOutKind : std::uint8_t { selector, model, both };

/// Shares of the failures that a threshold is to catch.
inline constexpr std::array<double, 2> kCatch = {0.95, 0.99};

struct LeftOutPart {
  std::string part;  ///< names of the selector and model; empty: all parts together, each judged by the others
  /// Scores, learnt on the other parts and prompts: the median over the folds. NaN for all parts together.
  std::array<double, kCatch.size()> thresholds = {};
  std::array<AlarmCounts, kCatch.size()> alarms = {};
  Auc auc;  ///< NaN where the part has too few outcomes (OutcomeCounts::enough)
  OutcomeCounts counts;
};

/// The parts in the order of the list of selectors or models (of both: by model), then all together. A part has no
/// alarms of the folds for which the others have too few outcomes. Empty if there is nothing else to learn from.
std::vector<LeftOutPart> leave_out(const OutcomeRuns& all, std::size_t predictor, LeftOutKind kind);

}  // namespace attest
