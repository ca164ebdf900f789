// One block per (row, range of places in the row's order); one thread per channel. A thread accumulates a channel's sum
// in a register and writes it when the level changes. Each row reads a kept value once for all settings.
#include "kernels/attention/sweep_in_order_cuda.h"
#include "kernels/device/cuda_check.h"
#include "kernels/device/octet.cuh"

namespace attest {
namespace {

constexpr int kSweepInOrderThreads = 128;
constexpr int kInFlight = 8;  // loads in flight per thread

/// Token, level and weight of kSweepInOrderThreads consecutive places, in shared memory.
struct Places {
  int token[kSweepInOrderThreads], level[kSweepInOrderThreads];
  float weight[kSweepInOrderThreads];

  /// Returns false if no setting keeps the first place. Levels ascend, so no setting keeps any later place either.
  __device__ bool load(const SweepView& view, int row, int first, int end) {
    const int thread = static_cast<int>(threadIdx.x), place = first + thread;
    __syncthreads();
    level[thread] = view.num_settings;
    if (place < end) {
      token[thread] = view.order.items(row, place);
      level[thread] = view.levels.row(row)[token[thread]];
      if (level[thread] < view.num_settings)
        weight[thread] = __expf(view.scores.row(row)[token[thread]] - view.sums.max.row(row)[level[thread]]);
    }
    __syncthreads();
    return level[0] < view.num_settings;
  }
};

__global__ void __launch_bounds__(kSweepInOrderThreads)
    level_order_kernel(DeviceRows rows, DeviceKeyValues kv, SweepView view, LevelPartials partials,
                       int places_per_split) {
  __shared__ Places places;
  const int row = blockIdx.y, settings = view.num_settings,
            channel = blockIdx.z * kSweepInOrderThreads + static_cast<int>(threadIdx.x);
  const int begin = blockIdx.x * places_per_split, end = min(view.order.counts[row], begin + places_per_split);
  const KeyOrigin origin = rows.origins[rows.origin[row]];
  const std::int64_t first_value = static_cast<std::int64_t>(origin.kv_head) * kv.tokens + origin.first_key;
  int level = settings;
  float sum = 0;
  const auto switch_level = [&](int next) {
    if (level < settings) {
      const std::int64_t at = (static_cast<std::int64_t>(blockIdx.x) * rows.num_rows + row) * settings + level;
      if (channel < partials.pitch) partials.sums[at * partials.pitch + channel] = sum;
      if (channel == 0) partials.present[at] = 1;
    }
    level = next;
    sum = 0;
  };
  for (int first = begin; first < end && places.load(view, row, first, end); first += kSweepInOrderThreads)
    for (int i = 0; i < kSweepInOrderThreads && places.level[i] < settings; i += kInFlight) {
      float value[kInFlight];
#pragma unroll
      for (int u = 0; u < kInFlight; ++u)
        value[u] = places.level[i + u] < settings && channel < kv.value_dim
                       ? load_element(kv.type, kv.values, (first_value + places.token[i + u]) * kv.value_dim + channel)
                       : 0;
#pragma unroll
      for (int u = 0; u < kInFlight; ++u) {
        if (places.level[i + u] >= settings) continue;
        if (places.level[i + u] != level) switch_level(places.level[i + u]);
        sum += places.weight[i + u] * value[u];
      }
    }
  switch_level(settings);
}

}  // namespace

void cuda_sweep_in_order(const DeviceRows& rows, const DeviceKeyValues& kv, const SweepView& view,
                         const LevelPartials& partials, cudaStream_t stream) {
  if (rows.num_rows == 0) return;
  const dim3 grid(partials.num_splits, rows.num_rows, (kv.value_dim + kSweepInOrderThreads - 1) / kSweepInOrderThreads);
  level_order_kernel<<<grid, kSweepInOrderThreads, 0, stream>>>(rows, kv, view, partials,
                                                                tokens_per_split(rows.layer_max_length));
  ATTEST_CUDA_LAUNCHED(level_order_kernel);
}

}  // namespace attest
