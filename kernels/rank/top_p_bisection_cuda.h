// The released Twilight kernel's top-p search on the device: the counterpart of top_p_bisection.h.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/device/device_arena.h"
#include "kernels/device/row_views.h"
#include "kernels/level.h"

namespace attest {

/// levels of the items in `order`, as many per row as `values` has, in descending value: first g whose threshold their
/// weight exceeds, S if none. Weights are the softmax of the values over the order; what is not in it weighs 0, item 0
/// too.
void cuda_top_p_bisection_levels(const RowOrder& order, const RowValues& values, const QuerySettings<double>& shares,
                                 const DeviceMatrix<Level>& levels, DeviceArena& arena, cudaStream_t stream);

}  // namespace attest
