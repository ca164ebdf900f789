// Both read each element once, sixteen bytes at a time.
#include "kernels/quantize/key_ranges.h"

#include <algorithm>

#include "kernels/device/cuda_check.h"
#include "kernels/device/octet.cuh"

namespace attest {
namespace {

constexpr int kThreads = 256;

/// A thread has eight channels of one segment.
__global__ void segment_ranges_kernel(DeviceRows rows, DeviceKeyValues kv, int width, int segments, float* lowest, float* highest) {
  const int padded = padded_channels(kv.head_dim), octets = padded / kOctet;
  const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const int segment = static_cast<int>(index / octets), channel = static_cast<int>(index % octets) * kOctet;
  if (segment >= segments) return;
  const KeyOrigin origin = rows.origins[blockIdx.y];
  const std::int64_t first_key = static_cast<std::int64_t>(origin.kv_head) * kv.tokens + origin.first_key;
  const int begin = segment * width, end = min(origin.length, begin + width);
  float low[kOctet] = {}, high[kOctet] = {};
  const auto load = [&](int token, float(&x)[kOctet]) {
    load_octet(kv.type, kv.keys, (first_key + token) * kv.head_dim + channel, kv.head_dim - channel, kv.head_dim, x);
  };
  if (begin < end) load(begin, low), load(begin, high);
#pragma unroll 8
  for (int token = begin + 1; token < end; ++token) {
    float x[kOctet];
    load(token, x);
#pragma unroll
    for (int i = 0; i < kOctet; ++i) {
      low[i] = fminf(low[i], x[i]);
      high[i] = fmaxf(high[i], x[i]);
    }
  }
  const std::int64_t at = (static_cast<std::int64_t>(blockIdx.y) * segments + segment) * padded + channel;
#pragma unroll
  for (int i = 0; i < kOctet; ++i) {
    lowest[at + i] = low[i];
    highest[at + i] = high[i];
  }
}

/// `lanes` neighbouring threads share one group.
__global__ void channel_ranges_kernel(ElementType type, const void* x, std::int64_t groups, int channels, int group, int lanes, float2* ranges) {
  const std::int64_t thread = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const std::int64_t index = min(thread / lanes, groups - 1);  // surplus threads repeat the last group
  const std::int64_t first = index * group;
  const int pitch = group % kOctet == 0 ? channels : 1;  // of aligned octets
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

void segment_ranges(const DeviceRows& rows, const DeviceKeyValues& kv, int width, float* lowest, float* highest, cudaStream_t stream) {
  const int segments = segments_of(rows.max_length, width);
  const std::int64_t threads = static_cast<std::int64_t>(segments) * (padded_channels(kv.head_dim) / kOctet);
  const dim3 grid(static_cast<unsigned>((threads + kThreads - 1) / kThreads), rows.num_origins);
  segment_ranges_kernel<<<grid, kThreads, 0, stream>>>(rows, kv, width, segments, lowest, highest);
  ATTEST_CUDA_LAUNCHED(segment_ranges_kernel);
}

void channel_ranges(ElementType type, const void* x, std::int64_t rows, int channels, int group, float2* ranges, cudaStream_t stream) {
  const std::int64_t groups = rows * (channels / group);
  int lanes = 1;
  while (lanes < 32 && lanes * kOctet < group) lanes *= 2;
  const std::int64_t threads = groups * lanes;
  channel_ranges_kernel<<<static_cast<unsigned>((threads + kThreads - 1) / kThreads), kThreads, 0, stream>>>(type, x, groups, channels, group,
                                                                                                         lanes, ranges);
  ATTEST_CUDA_LAUNCHED(channel_ranges_kernel);
}

}  // namespace attest
