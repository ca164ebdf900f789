// io_ratio: bytes an ideal kernel of the method reads for a KV head over those of a dense 16-bit read; the same for all
// heads of a group, of whose kept tokens each is read once.
#include "analysis/metrics/metrics_cuda.h"
#include "kernels/device/block_reduce.cuh"
#include "kernels/device/cuda_check.h"

namespace attest {
namespace {

constexpr int kThreads = 512;
constexpr int kAtOnce = 8;  // settings that one pass over the group's levels serves

/// Calls token(least level of the group's rows) for the thread's tokens, eight neighbours at a time.
template <class Token>
__device__ void for_group_tokens(const Level* levels, std::int64_t stride, int group, int length, Token&& token) {
  for (int j = static_cast<int>(threadIdx.x) * 8; j < length; j += kThreads * 8) {
    uint4 least = *reinterpret_cast<const uint4*>(levels + j);
    for (int h = 1; h < group; ++h) {
      const uint4 other = *reinterpret_cast<const uint4*>(levels + h * stride + j);
      least = {__vminu2(least.x, other.x), __vminu2(least.y, other.y), __vminu2(least.z, other.z),
               __vminu2(least.w, other.w)};
    }
    const std::uint32_t words[4] = {least.x, least.y, least.z, least.w};
#pragma unroll
    for (int i = 0; i < 8; ++i)
      if (j + i < length) token(static_cast<int>(words[i / 2] >> (i % 2 * 16) & 0xFFFFu));
  }
}

/// Block: the rows of one query and KV head.
__global__ void __launch_bounds__(kThreads)
    io_ratio_kernel(DeviceRows rows, const Level* levels, DeviceIoCost cost, SettingPlaces places, float* out) {
  __shared__ int shared[32];
  const int group = blockIdx.x, first_row = group * rows.group, length = rows.visible[first_row];
  const IoCost own = cost.costs[group];
  const double fixed = own.fixed + (cost.base_kept != nullptr ? cost.bytes_per_base * cost.base_kept[group] : 0);
  const double dense = cost.dense_token_bytes * length;
  for (int first = 0; first < places.count; first += kAtOnce) {
    int kept[kAtOnce] = {};
    if (levels != nullptr)
      for_group_tokens(levels + first_row * rows.stride, rows.stride, rows.group, length, [&](int level) {
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) kept[i] += level <= first + i ? 1 : 0;
      });
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int all = levels == nullptr ? length : block_reduce(kept[i], shared, Plus{});
      if (first + i >= places.count) continue;
      const double bytes = fixed + own.per_kept_token * (all - own.free_tokens);
      for (int h = threadIdx.x; h < rows.group; h += kThreads)
        out[places.at(rows, first_row + h, first + i)] = static_cast<float>(bytes / dense);
    }
  }
}

constexpr int kFewSettings = 8;

/// The same for many settings: tokens counted by the setting at which they enter, in runs.
__global__ void __launch_bounds__(kThreads)
    io_ratio_of_many_kernel(DeviceRows rows, const Level* levels, DeviceIoCost cost, SettingPlaces places, float* out) {
  extern __shared__ int entering[];  // [S + 1]
  const int group = blockIdx.x, first_row = group * rows.group, length = rows.visible[first_row],
            settings = places.count;
  for (int i = threadIdx.x; i <= settings; i += kThreads) entering[i] = 0;
  __syncthreads();
  int run = 0, tokens = 0;
  for_group_tokens(levels + first_row * rows.stride, rows.stride, rows.group, length, [&](int level) {
    if (level != run) {
      if (tokens > 0) atomicAdd(&entering[run], tokens);
      run = level, tokens = 0;
    }
    ++tokens;
  });
  if (tokens > 0) atomicAdd(&entering[run], tokens);
  __syncthreads();
  const IoCost own = cost.costs[group];
  const double fixed = own.fixed + (cost.base_kept != nullptr ? cost.bytes_per_base * cost.base_kept[group] : 0);
  for (int h = threadIdx.x; h < rows.group; h += kThreads) {
    int kept = 0;
    for (int i = 0; i < settings; ++i) {
      kept += entering[i];
      const double bytes = fixed + own.per_kept_token * (kept - own.free_tokens);
      out[places.at(rows, first_row + h, i)] = static_cast<float>(bytes / (cost.dense_token_bytes * length));
    }
  }
}

}  // namespace

void io_ratio(const DeviceRows& rows, const Level* levels, const DeviceIoCost& cost, const SettingPlaces& places,
              float* out, cudaStream_t stream) {
  if (levels != nullptr && places.count > kFewSettings) {
    const std::size_t bytes = static_cast<std::size_t>(places.count + 1) * sizeof(int);
    io_ratio_of_many_kernel<<<rows.num_rows / rows.group, kThreads, bytes, stream>>>(rows, levels, cost, places, out);
    ATTEST_CUDA_LAUNCHED(io_ratio_of_many_kernel);
    return;
  }
  io_ratio_kernel<<<rows.num_rows / rows.group, kThreads, 0, stream>>>(rows, levels, cost, places, out);
  ATTEST_CUDA_LAUNCHED(io_ratio_kernel);
}

}  // namespace attest
