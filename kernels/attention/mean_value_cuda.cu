// Sums of whole segments once for all queries, then of each query's segments and what it sees of the next.
#include "kernels/attention/mean_value_cuda.h"
#include "kernels/device/cuda_check.h"
#include "kernels/device/octet.cuh"

namespace attest {
namespace {

constexpr int kThreads = 256;
constexpr int kSegment = 256;  // tokens
constexpr int kTokensAtOnce = 8;

/// [heads, tokens, channels]
struct Source {
  ElementType type;
  const void* x;
  std::int64_t tokens;
  int channels;

  /// sum += tokens [begin, end) of the origin, one after the other.
  __device__ void add(const KeyOrigin& origin, int begin, int end, int channel, double (&sum)[kOctet]) const {
    const std::int64_t first = static_cast<std::int64_t>(origin.kv_head) * tokens + origin.first_key;
    for (int token = begin; token < end; token += kTokensAtOnce) {
      float values[kTokensAtOnce][kOctet];
      const auto place = [&](int t) {
        return OctetPlace{(first + token + t) * channels + channel, token + t < end ? channels - channel : 0};
      };
      load_octets(type, x, channels, place, values);
#pragma unroll
      for (int t = 0; t < kTokensAtOnce; ++t)
#pragma unroll
        for (int i = 0; i < kOctet; ++i) sum[i] += values[t][i];
    }
  }
};

/// A thread has eight channels of one whole segment: sums [num_origins, segments, padded].
__global__ void segment_sums_kernel(DeviceRows rows, Source source, int segments, double* sums) {
  const int padded = padded_channels(source.channels), octets = padded / kOctet;
  const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const int segment = static_cast<int>(index / octets), channel = static_cast<int>(index % octets) * kOctet;
  const KeyOrigin origin = rows.origins[blockIdx.y];
  if (segment >= segments || (segment + 1) * kSegment > origin.length) return;
  double sum[kOctet] = {};
  source.add(origin, segment * kSegment, (segment + 1) * kSegment, channel, sum);
  double* own = sums + (static_cast<std::int64_t>(blockIdx.y) * segments + segment) * padded + channel;
#pragma unroll
  for (int i = 0; i < kOctet; ++i) own[i] = sum[i];
}

/// A thread has eight channels of one query.
__global__ void means_kernel(DeviceRows rows, Source source, int segments, const double* sums, float* means) {
  const int padded = padded_channels(source.channels), octets = padded / kOctet;
  const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const int group = static_cast<int>(index / octets), channel = static_cast<int>(index % octets) * kOctet;
  if (group >= rows.num_rows / rows.group) return;
  const int row = group * rows.group, visible = rows.visible[row], whole = visible / kSegment;
  const double* own = sums + static_cast<std::int64_t>(rows.origin[row]) * segments * padded + channel;
  double sum[kOctet] = {};
#pragma unroll 8
  for (int segment = 0; segment < whole; ++segment)
#pragma unroll
    for (int i = 0; i < kOctet; ++i) sum[i] += own[static_cast<std::int64_t>(segment) * padded + i];
  source.add(rows.origins[rows.origin[row]], whole * kSegment, visible, channel, sum);
#pragma unroll
  for (int i = 0; i < kOctet; ++i)
    means[static_cast<std::int64_t>(group) * padded + channel + i] = static_cast<float>(sum[i] / visible);
}

__global__ void blend_kernel(DeviceRows rows, const float* means, const double* shares, int num_settings, int value_dim,
                             float* output) {
  const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x, cell = index / value_dim;
  if (cell >= static_cast<std::int64_t>(rows.num_rows) * num_settings) return;
  const double share = shares[cell],
               mean = means[cell / num_settings / rows.group * padded_channels(value_dim) + index % value_dim];
  output[index] = static_cast<float>(share * output[index] + (1 - share) * mean);
}

unsigned blocks_for(std::int64_t threads) { return static_cast<unsigned>((threads + kThreads - 1) / kThreads); }

}  // namespace

void visible_means(const DeviceRows& rows, ElementType type, const void* x, std::int64_t tokens, int channels,
                   float* means, DeviceArena& arena, cudaStream_t stream) {
  const DeviceArena::Scope scope(arena);
  const Source source{type, x, tokens, channels};
  const int segments = rows.max_length / kSegment, padded = padded_channels(channels), octets = padded / kOctet;
  auto* sums = arena.take<double>(static_cast<std::size_t>(rows.num_origins) * static_cast<std::size_t>(segments) *
                                  static_cast<std::size_t>(padded));
  if (segments > 0) {
    const dim3 grid(blocks_for(static_cast<std::int64_t>(segments) * octets), rows.num_origins);
    segment_sums_kernel<<<grid, kThreads, 0, stream>>>(rows, source, segments, sums);
    ATTEST_CUDA_LAUNCHED(segment_sums_kernel);
  }
  means_kernel<<<blocks_for(static_cast<std::int64_t>(rows.num_rows / rows.group) * octets), kThreads, 0, stream>>>(
      rows, source, segments, sums, means);
  ATTEST_CUDA_LAUNCHED(means_kernel);
}

void blend_mean_values(const DeviceRows& rows, const DeviceKeyValues& kv, const double* shares, int num_settings,
                       float* output, DeviceArena& arena, cudaStream_t stream) {
  const DeviceArena::Scope scope(arena);
  auto* means = arena.take<float>(static_cast<std::size_t>(rows.num_rows / rows.group) *
                                  static_cast<std::size_t>(padded_channels(kv.value_dim)));
  visible_means(rows, kv.type, kv.values, kv.tokens, kv.value_dim, means, arena, stream);
  const std::int64_t elements = static_cast<std::int64_t>(rows.num_rows) * num_settings * kv.value_dim;
  blend_kernel<<<blocks_for(elements), kThreads, 0, stream>>>(rows, means, shares, num_settings, kv.value_dim, output);
  ATTEST_CUDA_LAUNCHED(blend_kernel);
}

}  // namespace attest
