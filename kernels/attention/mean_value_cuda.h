// Means over the keys that each query sees, and outputs in which the mean value stands in for what was dropped.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/device/device_arena.h"
#include "kernels/device/device_rows.h"

namespace attest {

/// means [rows / G, padded_channels(channels)] of x [heads, tokens, channels], keys or values of the layer; padding is
/// 0. Sums in double, in an order that hangs on a query's origin and length alone.
void visible_means(const DeviceRows& rows, ElementType type, const void* x, std::int64_t tokens, int channels,
                   float* means, DeviceArena& arena, cudaStream_t stream);

/// output [rows, S, Dv] becomes a output + (1 - a) mean(v), a = shares [rows, S].
void blend_mean_values(const DeviceRows& rows, const DeviceKeyValues& kv, const double* shares, int num_settings,
                       float* output, DeviceArena& arena, cudaStream_t stream);

}  // namespace attest
