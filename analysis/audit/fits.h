// Hypotheses with a number that is found by fitting a few rows: the length of a sliding window, a softmax scale. All
// rows beyond rounding then say whether they explain them, too.
#pragma once

#include <atomic>
#include <optional>
#include <span>

#include "analysis/audit/audit_input.h"
#include "analysis/audit/hypothesis.h"

namespace attest {

/// The window of the last w keys that comes nearest to the outputs of the rows, over all w.
std::optional<Hypothesis> fitted_window(const AuditInput& input, const KvStorages& storages,
                                        std::span<const RowPlace> rows, const RoundingBound& bound,
                                        const std::atomic<bool>* stop);

/// The scale that comes nearest to the outputs of the rows, from 1/64 to 64 times the layer's.
std::optional<Hypothesis> fitted_scale(const AuditInput& input, const KvStorages& storages,
                                       std::span<const RowPlace> rows, const std::atomic<bool>* stop);

}  // namespace attest
