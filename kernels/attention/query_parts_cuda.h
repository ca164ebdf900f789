// The queries of a layer in the order of its rows, ready for tensor cores.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "kernels/device/device_rows.h"

namespace attest {

/// q [N * Hq, D] of `type`: row r reads q[rows.cell[r]]. parts [num_parts, rows, padded_channels(D)] with num_parts as
/// the type needs to lose nothing, values [rows, padded_channels(D)].
QueryParts split_queries(const DeviceRows& rows, ElementType type, const void* q, int head_dim, std::uint16_t* parts,
                         float* values, cudaStream_t stream);

/// bfloat16 parts that an element of the type is the exact sum of.
int num_query_parts(ElementType type);

}  // namespace attest
