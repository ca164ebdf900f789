// Means over the keys that each query sees, and outputs in which the mean value stands in for what was dropped, on the
// device.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/attention/level_sums_cuda.h"
#include "kernels/device/device_arena.h"
#include "kernels/device/device_rows.h"
#include "kernels/device/row_views.h"

namespace attest {

/// means[query of the rows][channel] of x, padded_channels(x.channels) wide; the padding is 0. Sums in double, in an
/// order that follows from a query's origin and length alone: how rows are cut into chunks changes no bit.
void cuda_visible_means(const DeviceRows& rows, const DeviceTokens& x, const DeviceMatrix<float>& means,
                        DeviceArena& arena, cudaStream_t stream);

/// Outputs become a output + (1 - a) mean(v), a = shares[row][setting].
void cuda_blend_mean_values(const DeviceRows& rows, const DeviceKeyValues& kv, const DeviceMatrix<const double>& shares,
                            const DeviceOutputs& outputs, DeviceArena& arena, cudaStream_t stream);

}  // namespace attest
