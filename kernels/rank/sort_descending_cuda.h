// Stable descending sort of every row on the device: the order behind rank correlation, top-k and top-p.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/device/device_arena.h"
#include "kernels/device/row_views.h"

namespace attest {

/// Item of the i-th largest value; equal values (and +0, -0) in ascending item. No NaN. The order lives in `arena`.
RowOrder cuda_sort_descending(const RowValues& values, DeviceArena& arena, cudaStream_t stream);

}  // namespace attest
