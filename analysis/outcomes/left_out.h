// Thresholds and combinations learnt without a part of the runs, and judged by that part: all runs of a selector, or of
// a model.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "analysis/outcomes/outcome_runs.h"
#include "analysis/statistics/alarm.h"

namespace attest {

enum class LeftOutKind : std::uint8_t { selector, model };

/// Shares of the failures that a threshold is to catch.
inline constexpr std::array<double, 2> kCatch = {0.95, 0.99};

struct LeftOutPart {
  std::string part;  ///< name of the selector or model; empty: all parts together, each judged by the others
  std::array<double, kCatch.size()> thresholds = {};  ///< scores, learnt on the other parts; NaN for all parts together
  std::array<AlarmCounts, kCatch.size()> alarms = {};
  Auc auc;  ///< NaN where the part has too few outcomes (OutcomeCounts::enough)
  OutcomeCounts counts;
};

/// The parts in the order of the list of selectors or models, then all together. A part has no alarms if the others
/// have too few outcomes. Empty if there is one part alone.
std::vector<LeftOutPart> leave_out(const OutcomeRuns& all, std::size_t predictor, LeftOutKind kind);

}  // namespace attest
