// Queries of a layer in row order, split into bfloat16 parts for tensor cores.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/device/device_arena.h"
#include "kernels/device/device_rows.h"

namespace attest {

/// q [N * Hq, D] of `type`: row r reads q[rows.cell[r]]. The number of parts is parts_of(type), so the split is exact.
/// The result is allocated in `arena`.
QueryParts cuda_query_parts(const DeviceRows& rows, ElementType type, const void* q, int head_dim, DeviceArena& arena,
                            cudaStream_t stream);

}  // namespace attest
