// How well a score tells failures from successes: the area under the ROC curve (AUC), the chance that a failure has the
// higher score of the two (H. B. Mann and D. R. Whitney, 1947), with an interval by the cluster bootstrap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "analysis/statistics/bootstrap.h"

namespace attest {

/// One outcome and what was predicted of it.
struct ScoredOutcome {
  double score = 0;  ///< high speaks for a failure; not NaN
  bool failed = false;
  std::size_t cluster = 0;  ///< outcomes of one cluster are not independent
  std::size_t stratum = 0;  ///< only outcomes of one stratum are compared with each other
};

struct Auc {
  double value = 0;  ///< NaN if no failure and success can be compared
  double low = 0, high = 0;
  std::size_t clusters = 0;
};

/// The share of the pairs of a failure and a success of one stratum in which the failure has the higher score; equal
/// scores count half.
double auc_of(std::span<const ScoredOutcome> outcomes);

/// The same with the percentile interval over clusters that are drawn with replacement. Draws without a pair do not
/// count. The same on every machine. Scores must be free of NaN, and options.confidence must lie in (0, 1). Where no
/// draw has a pair, low and high are NaN.
Auc auc_interval(std::span<const ScoredOutcome> outcomes, const BootstrapOptions& options = {});

}  // namespace attest
