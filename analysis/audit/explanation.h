// Why rows leave their rounding: hypotheses that predict what the engine gave for them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "analysis/audit/audit_input.h"
#include "analysis/audit/kv_storage.h"

namespace attest {

struct FailingRow {
  RowPlace place;
  double excess = 0;  ///< RowFit::excess beside what was expected
};

/// A hypothesis beside the failing rows.
struct TestedHypothesis {
  std::string kind, text, note;  ///< Hypothesis
  std::int64_t within = 0;       ///< tested rows that it predicts within rounding
  double error = 0;              ///< the largest relative error of a tested row
  double bound = 0;              ///< what rounding explains of that row
  double mean_excess = 0;        ///< root of the mean square of RowFit::excess
};

struct Explanation {
  std::int64_t failing = 0, tested = 0;      ///< rows; at most kMaxTested are tested
  std::vector<TestedHypothesis> explaining;  ///< those that predict every tested row within rounding, the nearest first
  std::vector<TestedHypothesis> nearest;     ///< without one that explains: the nearest, at most three
  std::int64_t screened = 0;                 ///< rows for which all hypotheses were computed
  std::int64_t explaining_left_out = 0;      ///< further hypotheses that explain these, and were not tested on others
};

inline constexpr std::size_t kMaxTested = 256;

/// `storages`: what the engine says its cache has. All hypotheses are computed for a few of the rows, the worst of two
/// KV heads; those that explain these, else the nearest, for all tested rows: the worst and others evenly spread.
Explanation explain(const AuditInput& input, const AuditOptions& options, const LayerAmax& amax,
                    const KvStorages& storages, std::span<const FailingRow> failing);

}  // namespace attest
