// Minima and maxima over segments of keys or values. Both kernels read each element once, in 16-byte loads, and keep
// several loads in flight.
#include "kernels/device/cuda_check.h"
#include "kernels/device/octet.cuh"
#include "kernels/quantize/ranges_cuda.h"

namespace attest {
namespace {

constexpr int kRangesThreads = 256;

// Eight neighbouring threads read 64 channels of a token. padded_channels() is a multiple of 64.
constexpr int kSliceOctets = 8;
constexpr int kTokensAtOnce = 8;

/// `lanes` (1, 2 or 4) threads of a warp share eight channels of one segment. Each takes every lanes-th token.
__global__ void segment_ranges_kernel(DeviceRows rows, DeviceKeyValues kv, int width, int lanes, SegmentRanges ranges) {
  const int segments = ranges.lowest.segments, slices = ranges.lowest.padded / (kSliceOctets * kOctet);
  const int index = static_cast<int>(blockIdx.x) * kRangesThreads + static_cast<int>(threadIdx.x);
  const int lane = index / kSliceOctets % lanes, slice = index / (kSliceOctets * lanes) % slices;
  const int segment = index / (kSliceOctets * lanes * slices),
            channel = (slice * kSliceOctets + index % kSliceOctets) * kOctet;
  const KeyOrigin origin = rows.origins[blockIdx.y];
  const std::int64_t first_key = static_cast<std::int64_t>(origin.kv_head) * kv.tokens + origin.first_key;
  const int begin = segment * width, end = segment < segments ? min(origin.length, begin + width) : 0;
  float low[kOctet], high[kOctet];
#pragma unroll
  for (int i = 0; i < kOctet; ++i) {
    low[i] = __int_as_float(0x7F800000);
    high[i] = -low[i];
  }
  for (int first = begin + lane; first < end; first += kTokensAtOnce * lanes) {
    float x[kTokensAtOnce][kOctet];
    const auto place = [&](int t) {
      const std::int64_t key = first_key + min(first + t * lanes, end - 1);  // surplus reads repeat the last token
      return OctetPlace{key * kv.head_dim + channel, kv.head_dim - channel};
    };
    load_octets(kv.type, kv.keys, kv.head_dim, place, x);
#pragma unroll
    for (int t = 0; t < kTokensAtOnce; ++t)
#pragma unroll
      for (int i = 0; i < kOctet; ++i) {
        low[i] = fminf(low[i], x[t][i]);
        high[i] = fmaxf(high[i], x[t][i]);
      }
  }
  for (int offset = kSliceOctets; offset < kSliceOctets * lanes; offset *= 2)
#pragma unroll
    for (int i = 0; i < kOctet; ++i) {
      low[i] = fminf(low[i], __shfl_xor_sync(0xFFFFFFFFu, low[i], offset));
      high[i] = fmaxf(high[i], __shfl_xor_sync(0xFFFFFFFFu, high[i], offset));
    }
  if (lane != 0 || segment >= segments) return;
  const int table = static_cast<int>(blockIdx.y);
#pragma unroll
  for (int i = 0; i < kOctet; ++i) {
    ranges.lowest.row(table, segment)[channel + i] = begin < end ? low[i] : 0;
    ranges.highest.row(table, segment)[channel + i] = begin < end ? high[i] : 0;
  }
}

/// `lanes` neighbouring threads share one group.
__global__ void channel_ranges_kernel(ElementType type, const void* x, std::int64_t groups, int channels, int group,
                                      int lanes, float2* ranges) {
  const std::int64_t thread = static_cast<std::int64_t>(blockIdx.x) * kRangesThreads + threadIdx.x;
  const std::int64_t index = min(thread / lanes, groups - 1);  // surplus threads repeat the last group
  const std::int64_t first = index * group;
  const int pitch = group % kOctet == 0 ? channels : 1;  // pitch 1: load_octet() must not assume alignment
  float low = __int_as_float(0x7F800000), high = -low;
  for (int c = static_cast<int>(thread % lanes) * kOctet; c < group; c += lanes * kOctet) {
    float values[kOctet];
    load_octet(type, x, first + c, group - c, pitch, values);
#pragma unroll
    for (int i = 0; i < kOctet; ++i)
      if (c + i < group) {
        low = fminf(low, values[i]);
        high = fmaxf(high, values[i]);
      }
  }
  for (int offset = lanes / 2; offset > 0; offset /= 2) {
    low = fminf(low, __shfl_xor_sync(0xFFFFFFFFu, low, offset));
    high = fmaxf(high, __shfl_xor_sync(0xFFFFFFFFu, high, offset));
  }
  if (thread % lanes == 0 && thread / lanes < groups) ranges[index] = {low, high};
}

}  // namespace

SegmentRanges cuda_segment_ranges(const DeviceRows& rows, const DeviceKeyValues& kv, int width, DeviceArena& arena,
                                  cudaStream_t stream) {
  const int segments = segments_of(rows.max_length, width), padded = padded_channels(kv.head_dim);
  SegmentRanges ranges{{nullptr, rows.num_origins, segments, padded}, {nullptr, rows.num_origins, segments, padded}};
  const auto elements = static_cast<std::size_t>(ranges.lowest.elements());
  ranges.lowest.data = arena.take<float>(elements);
  ranges.highest.data = arena.take<float>(elements);
  const int lanes = width >= 32 ? 4 : width >= 16 ? 2 : 1;
  const std::int64_t threads = static_cast<std::int64_t>(segments) * lanes * (padded / kOctet);
  const dim3 grid(static_cast<unsigned>((threads + kRangesThreads - 1) / kRangesThreads), rows.num_origins);
  segment_ranges_kernel<<<grid, kRangesThreads, 0, stream>>>(rows, kv, width, lanes, ranges);
  ATTEST_CUDA_LAUNCHED(segment_ranges_kernel);
  return ranges;
}

void cuda_channel_ranges(const DeviceTokens& x, std::int64_t vectors, int group, float2* ranges, cudaStream_t stream) {
  const std::int64_t groups = vectors * (x.channels / group);
  int lanes = 1;
  while (lanes < 32 && lanes * kOctet < group) lanes *= 2;
  const std::int64_t threads = groups * lanes;
  channel_ranges_kernel<<<static_cast<unsigned>((threads + kRangesThreads - 1) / kRangesThreads), kRangesThreads, 0,
                          stream>>>(x.type, x.data, groups, x.channels, group, lanes, ranges);
  ATTEST_CUDA_LAUNCHED(channel_ranges_kernel);
}

}  // namespace attest
