// Per-level maxima and weights: of a few levels in registers, of many by integer atomics in shared memory (no order, no
// rounding). Then the prefix merge in double.
#include "kernels/attention/level_sums_cuda.cuh"
#include "kernels/attention/level_sums_cuda.h"
#include "kernels/device/block_reduce.cuh"
#include "kernels/device/cuda_check.h"
#include "kernels/device/multiprocessor.h"

namespace attest {
namespace {

constexpr int kThreads = 512;
constexpr int kMergeThreads = 128, kMergeGroups = 4, kMergedAtOnce = 16;
constexpr int kMostPasses = 2;
using Weights = FixedPoint<40>;  // of up to 2^23 tokens

__global__ void __launch_bounds__(kThreads) sum_levels_kernel(DeviceRows rows, LevelView view) {
  extern __shared__ unsigned long long shared[];
  const int row = blockIdx.x, length = rows.visible[row], settings = view.num_settings;
  unsigned long long* sums = shared;                                   // [S]
  auto* maxima = reinterpret_cast<std::uint32_t*>(shared + settings);  // [S]
  const float* scores = view.scores + row * rows.stride;
  const Level* levels = view.levels == nullptr ? nullptr : view.levels + row * rows.stride;
  for (int i = threadIdx.x; i < settings; i += kThreads) sums[i] = 0, maxima[i] = 0;
  __syncthreads();

  const int lane = static_cast<int>(threadIdx.x) % 32;
  int level = settings;  // of the run of equal levels that the thread is in
  float best = 0;
  for_tokens(scores, levels, length, [&](float s, int here) {
    if (here != level) {
      if (level < settings) atomicMax(&maxima[level], ordered_image(best));
      level = here;
      best = s;
    }
    best = fmaxf(best, s);
  });
  for_levels_of_warp(level, [&](int here, bool takes_part) {
    const std::uint32_t most = warp_reduce(takes_part && here < settings ? ordered_image(best) : 0u, Larger{});
    if (lane == 0 && here < settings) atomicMax(&maxima[here], most);
  });
  __syncthreads();

  level = settings;
  double weight = 0;
  float max = 0;
  for_tokens(scores, levels, length, [&](float s, int here) {
    if (here != level) {
      if (level < settings) atomicAdd(&sums[level], Weights::from(weight));
      level = here;
      weight = 0;
      if (level < settings) max = from_ordered_image(maxima[level]);
    }
    if (level < settings) weight += expf(s - max);
  });
  for_levels_of_warp(level, [&](int here, bool takes_part) {
    const unsigned long long sum = warp_reduce(takes_part ? Weights::from(weight) : 0ull, Plus{});
    if (lane == 0 && here < settings) atomicAdd(&sums[here], sum);
  });
  __syncthreads();
  for (int i = threadIdx.x; i < settings; i += kThreads) {
    const std::int64_t at = static_cast<std::int64_t>(row) * settings + i;
    view.sums.max[at] = maxima[i] == 0 ? -__int_as_float(0x7F800000) : from_ordered_image(maxima[i]);
    view.sums.sum[at] = Weights::to(sums[i]);
  }
}

constexpr int kFewSettings = 4;

/// A block per row; each thread has all levels.
template <int kSettings>
__global__ void __launch_bounds__(kThreads) sum_few_levels_kernel(DeviceRows rows, LevelView view) {
  __shared__ float floats[32];
  __shared__ double doubles[32];
  const int row = blockIdx.x, length = rows.visible[row];
  const float* scores = view.scores + row * rows.stride;
  const Level* levels = view.levels == nullptr ? nullptr : view.levels + row * rows.stride;
  const float lowest = -__int_as_float(0x7F800000);
  float max[kSettings];
#pragma unroll
  for (int i = 0; i < kSettings; ++i) max[i] = lowest;
  for_tokens(scores, levels, length, [&](float s, int level) {
#pragma unroll
    for (int i = 0; i < kSettings; ++i) max[i] = fmaxf(max[i], level == i ? s : lowest);
  });
#pragma unroll
  for (int i = 0; i < kSettings; ++i) max[i] = block_reduce(max[i], floats, Larger{});

  float weight[kSettings] = {};  // of eight tokens
  double sum[kSettings] = {};
  const auto add = [&](float s, int level) {
    float own = 0;
#pragma unroll
    for (int i = 0; i < kSettings; ++i) own = level == i ? max[i] : own;
    const float w = expf(s - own);
#pragma unroll
    for (int i = 0; i < kSettings; ++i) weight[i] += level == i ? w : 0.0f;
  };
  for_eights(scores, levels, length, add, [&] {
#pragma unroll
    for (int i = 0; i < kSettings; ++i) {
      sum[i] += static_cast<double>(weight[i]);
      weight[i] = 0;
    }
  });
#pragma unroll
  for (int i = 0; i < kSettings; ++i) {
    const double all = block_reduce(sum[i], doubles, Plus{});
    if (threadIdx.x != 0 || i >= view.num_settings) continue;
    view.sums.max[static_cast<std::int64_t>(row) * view.num_settings + i] = max[i];
    view.sums.sum[static_cast<std::int64_t>(row) * view.num_settings + i] = all;
  }
}

struct Passes {
  LevelPartials partials[kMostPasses];
  int count;
};

/// Weighted value sum of a (row, level) in one channel: ranges of tokens in order.
__device__ double level_value(const DeviceRows& rows, const Passes& passes, int settings, std::int64_t cell,
                              int channel) {
  double value = 0;
  for (int p = 0; p < passes.count; ++p) {
    const LevelPartials& partials = passes.partials[p];
    const std::int64_t split_cells = static_cast<std::int64_t>(rows.num_rows) * settings;
    for (int first = 0; first < partials.num_splits; first += 8) {
      unsigned present = 0;
#pragma unroll
      for (int i = 0; i < 8; ++i)
        if (first + i < partials.num_splits && partials.present[(first + i) * split_cells + cell] != 0)
          present |= 1u << i;
      float sums[8];  // all on their way before the first is added
#pragma unroll
      for (int i = 0; i < 8; ++i)
        sums[i] = (present >> i & 1) != 0 ? partials.sums[((first + i) * split_cells + cell) * partials.pitch + channel]
                                          : 0.0f;
#pragma unroll
      for (int i = 0; i < 8; ++i) value += static_cast<double>(sums[i]);
    }
  }
  return value;
}

/// Block: one row; the threads of a group: a channel each. Groups add up the levels of kMergedAtOnce settings side by
/// side, then the first merges them in order.
__global__ void __launch_bounds__(kMergeThreads* kMergeGroups)
    merge_levels_kernel(DeviceRows rows, LevelView view, Passes passes, int value_dim, DeviceOutputs out) {
  __shared__ double values[kMergedAtOnce][kMergeThreads];
  const int settings = view.num_settings, group = static_cast<int>(threadIdx.x) / kMergeThreads,
            own = static_cast<int>(threadIdx.x) % kMergeThreads;
  const std::int64_t row = blockIdx.x;
  const double lowest = -static_cast<double>(__int_as_float(0x7F800000));
  for (int first_channel = 0; first_channel < value_dim; first_channel += kMergeThreads) {
    const int channel = first_channel + own;
    double value = 0, max = lowest, sum = 0;
    for (int first = 0; first < settings; first += kMergedAtOnce) {
      const int count = min(kMergedAtOnce, settings - first);
      __syncthreads();
      for (int i = group; i < count; i += kMergeGroups) {
        const std::int64_t cell = row * settings + first + i;
        values[i][own] =
            channel < value_dim && view.sums.sum[cell] > 0 ? level_value(rows, passes, settings, cell, channel) : 0;
      }
      __syncthreads();
      if (group != 0 || channel >= value_dim) continue;
      for (int i = 0; i < count; ++i) {
        const std::int64_t cell = row * settings + first + i;
        if (view.sums.sum[cell] > 0) {
          const double level_max = view.sums.max[cell], merged = fmax(max, level_max);
          const double keep = exp(max - merged), add = exp(level_max - merged);
          value = value * keep + values[i][own] * add;
          sum = sum * keep + view.sums.sum[cell] * add;
          max = merged;
        }
        out.output[cell * value_dim + channel] = sum > 0 ? static_cast<float>(value / sum) : 0.0f;
        if (channel == 0) out.lse[cell] = sum > 0 ? max + log(sum) : lowest;
      }
    }
  }
}

}  // namespace

void sum_levels(const DeviceRows& rows, const LevelView& view, cudaStream_t stream) {
  if (view.num_settings <= kFewSettings) {
    if (view.num_settings == 1)
      sum_few_levels_kernel<1><<<rows.num_rows, kThreads, 0, stream>>>(rows, view);
    else if (view.num_settings == 2)
      sum_few_levels_kernel<2><<<rows.num_rows, kThreads, 0, stream>>>(rows, view);
    else
      sum_few_levels_kernel<kFewSettings><<<rows.num_rows, kThreads, 0, stream>>>(rows, view);
    ATTEST_CUDA_LAUNCHED(sum_few_levels_kernel);
    return;
  }
  const std::size_t bytes = static_cast<std::size_t>(view.num_settings) * 12;
  allow_shared_memory(sum_levels_kernel, bytes);
  sum_levels_kernel<<<rows.num_rows, kThreads, bytes, stream>>>(rows, view);
  ATTEST_CUDA_LAUNCHED(sum_levels_kernel);
}

void merge_levels(const DeviceRows& rows, const LevelView& view, const LevelPartials* partials, int count,
                  int value_dim, const DeviceOutputs& out, cudaStream_t stream) {
  Passes passes{};
  passes.count = count;
  for (int p = 0; p < count; ++p) passes.partials[p] = partials[p];
  merge_levels_kernel<<<rows.num_rows, kMergeThreads * kMergeGroups, 0, stream>>>(rows, view, passes, value_dim, out);
  ATTEST_CUDA_LAUNCHED(merge_levels_kernel);
}

}  // namespace attest
