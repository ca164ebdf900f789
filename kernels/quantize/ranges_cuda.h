// Minimum and maximum over segments of keys or values, the input of the asymmetric quantisers and of page bounds.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/device/device_arena.h"
#include "kernels/device/device_rows.h"
#include "kernels/device/row_views.h"

namespace attest {

constexpr int segments_of(int length, int width) { return (length + width - 1) / width; }

/// Per-channel range of the keys over segments of `width` consecutive tokens. Segments count from each origin's first
/// key.
struct SegmentRanges {
  ChannelTables<float> lowest, highest;  ///< [origins, segments of max_length, padded_channels(D)]; padding is 0
};
/// The last segment of an origin may be partial. The tables are allocated in `arena`.
SegmentRanges cuda_segment_ranges(const DeviceRows& rows, const DeviceKeyValues& kv, int width, DeviceArena& arena,
                                  cudaStream_t stream);

/// Range of each token over groups of `group` consecutive channels, for the first `vectors` keys or values of x.
/// ranges [vectors, x.channels / group]: .x is the minimum, .y the maximum. group divides x.channels.
void cuda_channel_ranges(const DeviceTokens& x, std::int64_t vectors, int group, float2* ranges, cudaStream_t stream);

}  // namespace attest
