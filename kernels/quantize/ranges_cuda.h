// Smallest and largest element over segments of keys or values: what every asymmetric quantiser and every page bound
// starts from.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/device/device_arena.h"
#include "kernels/device/device_rows.h"
#include "kernels/device/row_views.h"

namespace attest {

constexpr int segments_of(int length, int width) { return (length + width - 1) / width; }

/// Per channel of the keys over segments of `width` consecutive tokens, counted from each origin's first key.
struct SegmentRanges {
  ChannelTables<float> lowest, highest;  ///< [origins, segments of max_length, padded_channels(D)]; padding is 0
};
/// The last segment of an origin may be partial. The tables live in `arena`.
SegmentRanges cuda_segment_ranges(const DeviceRows& rows, const DeviceKeyValues& kv, int width, DeviceArena& arena,
                                  cudaStream_t stream);

/// Per token over `group` consecutive channels: ranges [vectors, x.channels / group], x smallest, y largest, of the
/// first `vectors` keys or values of x. group divides x.channels.
void cuda_channel_ranges(const DeviceTokens& x, std::int64_t vectors, int group, float2* ranges, cudaStream_t stream);

}  // namespace attest
