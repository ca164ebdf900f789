// Means over the keys that each query sees, and SparQ's mean-value correction (mean_value.h), on the device.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/attention/level_sums_cuda.h"
#include "kernels/device/device_arena.h"
#include "kernels/device/device_rows.h"
#include "kernels/device/row_views.h"

namespace attest {

/// means[query][channel] = mean of x over the keys that the query sees; one query per `group` rows. Rows of `means` are
/// padded_channels(x.channels) wide, padding 0. Sums are in double. Their order depends only on the query's origin and
/// length, so the results are bit-identical however rows are split into chunks.
void cuda_visible_means(const DeviceRows& rows, const DeviceTokens& x, const DeviceMatrix<float>& means,
                        DeviceArena& arena, cudaStream_t stream);

/// Replaces every output by a * output + (1 - a) * mean(v), a = shares[row][setting].
void cuda_blend_mean_values(const DeviceRows& rows, const DeviceKeyValues& kv, const DeviceMatrix<const double>& shares,
                            const DeviceOutputs& outputs, DeviceArena& arena, cudaStream_t stream);

}  // namespace attest
