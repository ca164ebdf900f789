// io_ratio on the device: one thread block per query and KV head.
#include "analysis/metrics/io_ratio.h"
#include "analysis/metrics/rows_cuda.h"
#include "kernels/device/block_reduce.cuh"
#include "kernels/device/cuda_check.h"

namespace attest {
namespace {

constexpr int kIoRatioThreads = 512;
constexpr int kSettingsPerPass = 8;  // settings counted in one pass over the group's levels

/// Bytes read for a query and KV head. Group g holds rows [g G, (g + 1) G) and costs costs[g]. If the selector counts a
/// base set on the device, each of its base_kept[g] tokens costs bytes_per_base more.
struct Cost {
  const IoCost* costs;   ///< [rows / G]
  const int* base_kept;  ///< [rows / G], or null
  double bytes_per_base, dense_token_bytes;
};

/// Calls token(level) for the thread's tokens, eight neighbours at a time. `level` is the lowest entry level of the
/// token in any row of the group.
template <class Token>
__device__ void for_group_tokens(const Level* levels, std::int64_t stride, int group, int length, Token&& token) {
  for (int j = static_cast<int>(threadIdx.x) * 8; j < length; j += kIoRatioThreads * 8) {
    uint4 minimum = *reinterpret_cast<const uint4*>(levels + j);
    for (int h = 1; h < group; ++h) {
      const uint4 other = *reinterpret_cast<const uint4*>(levels + h * stride + j);
      minimum = {__vminu2(minimum.x, other.x), __vminu2(minimum.y, other.y), __vminu2(minimum.z, other.z),
                 __vminu2(minimum.w, other.w)};
    }
    const std::uint32_t words[4] = {minimum.x, minimum.y, minimum.z, minimum.w};
#pragma unroll
    for (int i = 0; i < 8; ++i)
      if (j + i < length) token(static_cast<int>(words[i / 2] >> (i % 2 * 16) & 0xFFFFu));
  }
}

/// One thread block per query and KV head.
__global__ void __launch_bounds__(kIoRatioThreads)
    io_ratio_kernel(DeviceRows rows, const Level* levels, Cost cost, SettingOffsets offsets, float* out) {
  __shared__ int shared[32];
  const int group = blockIdx.x, first_row = group * rows.group, length = rows.visible[first_row];
  const IoCost own = cost.costs[group];
  const double fixed = own.fixed + (cost.base_kept != nullptr ? cost.bytes_per_base * cost.base_kept[group] : 0);
  const double dense = cost.dense_token_bytes * length;
  for (int first = 0; first < offsets.count; first += kSettingsPerPass) {
    int kept[kSettingsPerPass] = {};
    if (levels != nullptr)
      for_group_tokens(levels + first_row * rows.stride, rows.stride, rows.group, length, [&](int level) {
#pragma unroll
        for (int i = 0; i < kSettingsPerPass; ++i) kept[i] += level <= first + i ? 1 : 0;
      });
#pragma unroll
    for (int i = 0; i < kSettingsPerPass; ++i) {
      const int all = levels == nullptr ? length : block_reduce(kept[i], shared, Plus{});
      if (first + i >= offsets.count) continue;
      const double bytes = fixed + own.per_kept_token * (all - own.free_tokens);
      for (int h = threadIdx.x; h < rows.group; h += kIoRatioThreads)
        out[offsets.at(rows, first_row + h, first + i)] = static_cast<float>(bytes / dense);
    }
  }
}

}  // namespace

void cuda_io_ratio(const CudaSelectorRows& rows, const CudaCells& cells) {
  const CudaChunk& chunk = rows.chunk();
  const CudaSelection& selection = *rows.selection;
  const int bytes = selection.levels != nullptr ? static_cast<int>(sizeof(Level)) : 0;
  const StageClock::Stage stage(*rows.exact->clock, "io ratio", chunk.stream, bytes * row_tokens(chunk));
  const Cost cost{chunk.upload(selection.io), selection.base_kept, selection.bytes_per_base,
                  dense_token_bytes(chunk.kv)};
  io_ratio_kernel<<<chunk.rows.num_rows / chunk.rows.group, kIoRatioThreads, 0, chunk.stream>>>(
      chunk.rows, selection.levels, cost, rows.offsets, cells.of("io_ratio"));
  ATTEST_CUDA_LAUNCHED(io_ratio_kernel);
}

}  // namespace attest
