// The pass over the values for rules that rank single tokens: their levels hardly ever come in runs, but never fall
// along the ranking.
#pragma once

#include "kernels/attention/level_sums_cuda.h"

namespace attest {

/// Fills partials (none present before) from exact values, going along view.order; ranges are ranges of places there.
void cuda_sweep_in_order(const DeviceRows& rows, const DeviceKeyValues& kv, const SweepView& view,
                         const LevelPartials& partials, cudaStream_t stream);

}  // namespace attest
