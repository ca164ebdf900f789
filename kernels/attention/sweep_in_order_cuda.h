// Pass over the values for rules that rank single tokens. Levels of neighbouring tokens differ (no runs), but along the
// ranking levels never decrease.
#pragma once

#include "kernels/attention/level_sums_cuda.h"

namespace attest {

/// Fills partials (initially none present) from exact values in the order view.order. The ranges of the partials are
/// ranges of places in this order, not of tokens. Levels must not decrease along it: a sum that a lower level leaves
/// later would replace the earlier one, and nothing behind the first token that no setting keeps is read.
void cuda_sweep_in_order(const DeviceRows& rows, const DeviceKeyValues& kv, const SweepView& view,
                         const LevelPartials& partials, cudaStream_t stream);

}  // namespace attest
