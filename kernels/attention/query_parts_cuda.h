// The queries of a layer in the order of its rows, ready for tensor cores.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/device/device_arena.h"
#include "kernels/device/device_rows.h"

namespace attest {

/// q [N * Hq, D] of `type`: row r reads q[rows.cell[r]]. As many parts as the type needs to lose nothing; they live in
/// `arena`.
QueryParts cuda_query_parts(const DeviceRows& rows, ElementType type, const void* q, int head_dim, DeviceArena& arena,
                            cudaStream_t stream);

}  // namespace attest
