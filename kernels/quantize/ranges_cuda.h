// Smallest and largest element over segments of keys or values: what every asymmetric quantiser and every page bound
// starts from.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/device/device_rows.h"

namespace attest {

/// Per channel over segments of `width` consecutive tokens counted from each origin's first key: lowest, highest
/// [num_origins, segments, padded_channels(D)], segments = ceil(max_length / width); padding channels are 0. The last
/// segment of an origin may be partial.
void segment_ranges(const DeviceRows& rows, const DeviceKeyValues& kv, int width, float* lowest, float* highest,
                    cudaStream_t stream);

constexpr int segments_of(int length, int width) { return (length + width - 1) / width; }

/// Per token over `group` consecutive channels: ranges [rows, channels / group], x smallest, y largest. x [rows,
/// channels] of `type`; group divides channels.
void channel_ranges(ElementType type, const void* x, std::int64_t rows, int channels, int group, float2* ranges,
                    cudaStream_t stream);

}  // namespace attest
