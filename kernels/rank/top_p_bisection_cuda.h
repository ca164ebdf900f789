// Top-p threshold search of the released Twilight kernel, on the device: the counterpart of top_p_bisection.h.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/base/level.h"
#include "kernels/device/device_arena.h"
#include "kernels/device/row_views.h"

namespace attest {

/// Levels of the first values.counts[r] items in `order` (descending values): first g such that the item's weight
/// exceeds the threshold of shares[g]; S if none. Weights are the softmax over the items in `order`. An item that is
/// not in `order` has weight 0; this applies to item 0, too, from whose weight the bisection starts.
void cuda_top_p_bisection_levels(const RowOrder& order, const RowValues& values, const QuerySettings<double>& shares,
                                 const DeviceMatrix<Level>& levels, DeviceArena& arena, cudaStream_t stream);

}  // namespace attest
