// Alarms: a score at or above a threshold is taken for a failure. What that catches, and what it costs.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "analysis/statistics/auc.h"

namespace attest {

struct AlarmCounts {
  std::int64_t failures = 0, caught = 0;         ///< caught: failures with an alarm
  std::int64_t successes = 0, false_alarms = 0;  ///< false alarms: successes with one

  /// NaN where there is nothing to count.
  double caught_share() const;
  double false_alarm_share() const;
  AlarmCounts& operator+=(const AlarmCounts& other);
};

AlarmCounts alarms_at(std::span<const ScoredOutcome> outcomes, double threshold);

/// The highest threshold that catches at least `share` of the failures; NaN without a failure.
double threshold_that_catches(std::span<const ScoredOutcome> outcomes, double share);

struct RocPoint {
  double threshold = 0;  ///< infinite: no alarm
  double false_alarms = 0, caught = 0;
};

/// From no alarm to alarms everywhere; points between two others on a horizontal or vertical line are left out. Empty
/// if there are no failures or no successes.
std::vector<RocPoint> roc_curve(std::span<const ScoredOutcome> outcomes);

}  // namespace attest
