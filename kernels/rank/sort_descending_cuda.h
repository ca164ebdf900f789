// Stable descending sort of every row on the device, used by rank correlation, top-k and top-p.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/device/device_arena.h"
#include "kernels/device/row_views.h"

namespace attest {

/// Entry i of a row is the item with the i-th largest value. Equal values (including +0 and -0) are in ascending order
/// of item. NaNs come before all numbers or after them, depending on their sign. The result is allocated in `arena`.
RowOrder cuda_sort_descending(const RowValues& values, DeviceArena& arena, cudaStream_t stream);

}  // namespace attest
