// Sums of whole segments are computed once for all queries. The sum of a query adds its whole segments and the visible
// tokens of the next, partial segment.
#include "kernels/attention/mean_value_cuda.h"
#include "kernels/device/cuda_check.h"
#include "kernels/device/octet.cuh"

namespace attest {
namespace {

constexpr int kMeanValueThreads = 256;
constexpr int kSegment = 256;  // tokens
constexpr int kTokensAtOnce = 8;

/// sum += tokens [begin, end) of the origin, in ascending order.
__device__ void add_tokens(const DeviceTokens& x, const KeyOrigin& origin, int begin, int end, int channel,
                           double (&sum)[kOctet]) {
  const std::int64_t first = static_cast<std::int64_t>(origin.kv_head) * x.tokens + origin.first_key;
  for (int token = begin; token < end; token += kTokensAtOnce) {
    float values[kTokensAtOnce][kOctet];
    const auto place = [&](int t) {
      return OctetPlace{(first + token + t) * x.channels + channel, token + t < end ? x.channels - channel : 0};
    };
    load_octets(x.type, x.data, x.channels, place, values);
#pragma unroll
    for (int t = 0; t < kTokensAtOnce; ++t)
#pragma unroll
      for (int i = 0; i < kOctet; ++i) sum[i] += values[t][i];
  }
}

/// One thread per whole segment and eight channels. sums [num_origins, segments, padded].
__global__ void segment_sums_kernel(DeviceRows rows, DeviceTokens x, int segments, double* sums) {
  const int padded = padded_channels(x.channels), octets = padded / kOctet;
  const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * kMeanValueThreads + threadIdx.x;
  const int segment = static_cast<int>(index / octets), channel = static_cast<int>(index % octets) * kOctet;
  const KeyOrigin origin = rows.origins[blockIdx.y];
  if (segment >= segments || (segment + 1) * kSegment > origin.length) return;
  double sum[kOctet] = {};
  add_tokens(x, origin, segment * kSegment, (segment + 1) * kSegment, channel, sum);
  double* own = sums + (static_cast<std::int64_t>(blockIdx.y) * segments + segment) * padded + channel;
#pragma unroll
  for (int i = 0; i < kOctet; ++i) own[i] = sum[i];
}

/// One thread per query and eight channels.
__global__ void means_kernel(DeviceRows rows, DeviceTokens x, int segments, const double* sums,
                             DeviceMatrix<float> means) {
  const int padded = padded_channels(x.channels), octets = padded / kOctet;
  const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * kMeanValueThreads + threadIdx.x;
  const int group = static_cast<int>(index / octets), channel = static_cast<int>(index % octets) * kOctet;
  if (group >= rows.num_rows / rows.group) return;
  const int row = group * rows.group, visible = rows.visible[row], whole = visible / kSegment;
  const double* own = sums + static_cast<std::int64_t>(rows.origin[row]) * segments * padded + channel;
  double sum[kOctet] = {};
#pragma unroll 8
  for (int segment = 0; segment < whole; ++segment)
#pragma unroll
    for (int i = 0; i < kOctet; ++i) sum[i] += own[static_cast<std::int64_t>(segment) * padded + i];
  add_tokens(x, rows.origins[rows.origin[row]], whole * kSegment, visible, channel, sum);
#pragma unroll
  for (int i = 0; i < kOctet; ++i) means.row(group)[channel + i] = static_cast<float>(sum[i] / visible);
}

__global__ void blend_kernel(DeviceRows rows, DeviceMatrix<const float> means, DeviceMatrix<const double> shares,
                             int num_settings, int value_dim, float* output) {
  const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * kMeanValueThreads + threadIdx.x,
                     cell = index / value_dim;
  const int row = static_cast<int>(cell / num_settings), setting = static_cast<int>(cell % num_settings);
  if (row >= rows.num_rows) return;
  const double share = shares.row(row)[setting], mean = means.row(row / rows.group)[index % value_dim];
  output[index] = static_cast<float>(share * output[index] + (1 - share) * mean);
}

unsigned blocks_for(std::int64_t threads) {
  return static_cast<unsigned>((threads + kMeanValueThreads - 1) / kMeanValueThreads);
}

}  // namespace

void cuda_visible_means(const DeviceRows& rows, const DeviceTokens& x, const DeviceMatrix<float>& means,
                        DeviceArena& arena, cudaStream_t stream) {
  const DeviceArena::Scope scope(arena);
  const int segments = rows.max_length / kSegment, padded = padded_channels(x.channels), octets = padded / kOctet;
  auto* sums = arena.take<double>(static_cast<std::size_t>(rows.num_origins) * static_cast<std::size_t>(segments) *
                                  static_cast<std::size_t>(padded));
  if (segments > 0) {
    const dim3 grid(blocks_for(static_cast<std::int64_t>(segments) * octets), rows.num_origins);
    segment_sums_kernel<<<grid, kMeanValueThreads, 0, stream>>>(rows, x, segments, sums);
    ATTEST_CUDA_LAUNCHED(segment_sums_kernel);
  }
  means_kernel<<<blocks_for(static_cast<std::int64_t>(rows.num_rows / rows.group) * octets), kMeanValueThreads, 0,
                 stream>>>(rows, x, segments, sums, means);
  ATTEST_CUDA_LAUNCHED(means_kernel);
}

void cuda_blend_mean_values(const DeviceRows& rows, const DeviceKeyValues& kv, const DeviceMatrix<const double>& shares,
                            const DeviceOutputs& outputs, DeviceArena& arena, cudaStream_t stream) {
  const DeviceArena::Scope scope(arena);
  const int padded = padded_channels(kv.value_dim);
  const DeviceMatrix<float> means{
      arena.take<float>(static_cast<std::size_t>(rows.num_rows / rows.group) * static_cast<std::size_t>(padded)),
      padded};
  cuda_visible_means(rows, kv.all_values(), means, arena, stream);
  const std::int64_t elements = static_cast<std::int64_t>(rows.num_rows) * outputs.num_settings * kv.value_dim;
  blend_kernel<<<blocks_for(elements), kMeanValueThreads, 0, stream>>>(rows, means, shares, outputs.num_settings,
                                                                       kv.value_dim, outputs.output);
  ATTEST_CUDA_LAUNCHED(blend_kernel);
}

}  // namespace attest
