// Hypotheses with a number that is found by fitting one row: the length of a sliding window, a softmax scale. Other
// rows then say whether they explain it, too.
#pragma once

#include <optional>

#include "analysis/audit/audit_input.h"
#include "analysis/audit/hypothesis.h"

namespace attest {

/// The window of the last w keys that comes nearest to the row's output, over all w.
std::optional<Hypothesis> fitted_window(const AuditInput& input, const KvStorages& storages, const RowPlace& row,
                                        const RoundingBound& bound, const std::atomic<bool>* stop);

/// The scale that comes nearest to the row's output, from 1/64 to 64 times the layer's.
std::optional<Hypothesis> fitted_scale(const AuditInput& input, const KvStorages& storages, const RowPlace& row,
                                       const std::atomic<bool>* stop);

}  // namespace attest
