// Maximum and sum of weights per (row, level), then the prefix merge over levels in double. The sums use integer
// atomics in shared memory, so they do not depend on the order of the additions.
#include "kernels/attention/level_sums_cuda.cuh"
#include "kernels/attention/level_sums_cuda.h"
#include "kernels/device/block_reduce.cuh"
#include "kernels/device/cuda_check.h"
#include "kernels/device/multiprocessor.h"

namespace attest {
namespace {

constexpr int kLevelSumsThreads = 512;
constexpr int kMergeThreads = 128, kMergeGroups = 4, kMergedAtOnce = 16;
constexpr int kMaxPasses = 2;
using Weights = FixedPoint<40>;  // room for 2^23 tokens

/// One block per row.
__global__ void __launch_bounds__(kLevelSumsThreads) sum_levels_kernel(DeviceRows rows, SweepView view) {
  extern __shared__ unsigned long long shared[];
  const int row = blockIdx.x, length = rows.visible[row], settings = view.num_settings;
  unsigned long long* sums = shared;                                   // [S]
  auto* maxima = reinterpret_cast<std::uint32_t*>(shared + settings);  // [S]
  const float* scores = view.scores.row(row);
  const Level* levels = view.levels ? view.levels.row(row) : nullptr;
  for (int i = threadIdx.x; i < settings; i += kLevelSumsThreads) sums[i] = 0, maxima[i] = 0;
  __syncthreads();

  const int lane = static_cast<int>(threadIdx.x) % 32;
  int level = settings;  // of the thread's current run of equal levels
  float best = 0;
  for_tokens(scores, levels, length, [&](float s, int here) {
    if (here != level) {
      if (level < settings) atomicMax(&maxima[level], ordered_bits(best));
      level = here;
      best = s;
    }
    best = fmaxf(best, s);
  });
  for_levels_of_warp(level, [&](int here, bool takes_part) {
    const std::uint32_t maximum = warp_reduce(takes_part && here < settings ? ordered_bits(best) : 0u, Larger{});
    if (lane == 0 && here < settings) atomicMax(&maxima[here], maximum);
  });
  __syncthreads();

  level = settings;
  double weight = 0;
  float max = 0;
  for_tokens(scores, levels, length, [&](float s, int here) {
    if (here != level) {
      if (level < settings) add_atomically(&sums[level], Weights::from(weight));
      level = here;
      weight = 0;
      if (level < settings) max = from_ordered_bits(maxima[level]);
    }
    if (level < settings) weight += expf(s - max);
  });
  for_levels_of_warp(level, [&](int here, bool takes_part) {
    const unsigned long long sum = warp_reduce(takes_part ? Weights::from(weight) : 0ull, Plus{});
    if (lane == 0 && here < settings) add_atomically(&sums[here], sum);
  });
  __syncthreads();
  for (int i = threadIdx.x; i < settings; i += kLevelSumsThreads) {
    view.sums.max.row(row)[i] = maxima[i] == 0 ? -__int_as_float(0x7F800000) : from_ordered_bits(maxima[i]);
    view.sums.sum.row(row)[i] = Weights::to(sums[i]);
  }
}

struct Passes {
  LevelPartials partials[kMaxPasses];
  int count;
};

/// Weighted value sum of a (row, level) in one channel. Token ranges are added in ascending order.
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
      float sums[8];  // eight loads in flight before the first addition
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

/// One block per row; each thread of a group has one channel. The groups add up the partial sums of kMergedAtOnce
/// levels in parallel, then group 0 merges these levels in order.
__global__ void __launch_bounds__(kMergeThreads* kMergeGroups)
    merge_levels_kernel(DeviceRows rows, LevelSums sums, Passes passes, DeviceOutputs out) {
  __shared__ double values[kMergedAtOnce][kMergeThreads];
  const int settings = out.num_settings, value_dim = out.value_dim,
            group = static_cast<int>(threadIdx.x) / kMergeThreads, own = static_cast<int>(threadIdx.x) % kMergeThreads;
  const int row = blockIdx.x;
  const std::int64_t first_cell = static_cast<std::int64_t>(row) * settings;
  const float* level_max = sums.max.row(row);
  const double* level_sum = sums.sum.row(row);
  const double lowest = -static_cast<double>(__int_as_float(0x7F800000));
  for (int first_channel = 0; first_channel < value_dim; first_channel += kMergeThreads) {
    const int channel = first_channel + own;
    double value = 0, max = lowest, sum = 0;
    for (int first = 0; first < settings; first += kMergedAtOnce) {
      const int count = min(kMergedAtOnce, settings - first);
      __syncthreads();
      for (int i = group; i < count; i += kMergeGroups) {
        values[i][own] = channel < value_dim && level_sum[first + i] > 0
                             ? level_value(rows, passes, settings, first_cell + first + i, channel)
                             : 0;
      }
      __syncthreads();
      if (group != 0 || channel >= value_dim) continue;
      for (int i = 0; i < count; ++i) {
        const std::int64_t cell = first_cell + first + i;
        if (level_sum[first + i] > 0) {
          const double here = level_max[first + i], merged = fmax(max, here);
          const double keep = exp(max - merged), add = exp(here - merged);
          value = value * keep + values[i][own] * add;
          sum = sum * keep + level_sum[first + i] * add;
          max = merged;
        }
        out.output[cell * value_dim + channel] = sum > 0 ? static_cast<float>(value / sum) : 0.0f;
        if (channel == 0) out.lse[cell] = sum > 0 ? max + log(sum) : lowest;
      }
    }
  }
}

}  // namespace

LevelSums take_level_sums(const DeviceRows& rows, int num_settings, DeviceArena& arena) {
  const std::size_t cells = static_cast<std::size_t>(rows.num_rows) * static_cast<std::size_t>(num_settings);
  return {{arena.take<float>(cells), num_settings}, {arena.take<double>(cells), num_settings}};
}

LevelPartials take_partials(const DeviceRows& rows, int num_settings, int value_dim, DeviceArena& arena,
                            cudaStream_t stream) {
  const int tokens = tokens_per_split(rows.layer_max_length);
  LevelPartials partials{.num_splits = (rows.max_length + tokens - 1) / tokens, .pitch = (value_dim + 1) / 2 * 2};
  const std::size_t cells = static_cast<std::size_t>(partials.num_splits) * static_cast<std::size_t>(rows.num_rows) *
                            static_cast<std::size_t>(num_settings);
  partials.sums = arena.take<float>(cells * static_cast<std::size_t>(partials.pitch));
  partials.present = arena.take<std::uint8_t>(cells);
  ATTEST_CUDA(cudaMemsetAsync(partials.present, 0, cells, stream));
  return partials;
}

DeviceOutputs take_outputs(const DeviceRows& rows, int num_settings, int value_dim, DeviceArena& arena) {
  const std::size_t cells = static_cast<std::size_t>(rows.num_rows) * static_cast<std::size_t>(num_settings);
  return {arena.take<float>(cells * static_cast<std::size_t>(value_dim)), arena.take<double>(cells), num_settings,
          value_dim};
}

void cuda_sum_levels(const DeviceRows& rows, const SweepView& view, cudaStream_t stream) {
  const std::size_t bytes = static_cast<std::size_t>(view.num_settings) * 12;
  allow_shared_memory(sum_levels_kernel, bytes);
  sum_levels_kernel<<<rows.num_rows, kLevelSumsThreads, bytes, stream>>>(rows, view);
  ATTEST_CUDA_LAUNCHED(sum_levels_kernel);
}

void cuda_merge_levels(const DeviceRows& rows, const LevelSums& sums, const LevelPartials* partials, int count,
                       const DeviceOutputs& out, cudaStream_t stream) {
  Passes passes{};
  passes.count = count;
  for (int p = 0; p < count; ++p) passes.partials[p] = partials[p];
  merge_levels_kernel<<<rows.num_rows, kMergeThreads * kMergeGroups, 0, stream>>>(rows, sums, passes, out);
  ATTEST_CUDA_LAUNCHED(merge_levels_kernel);
}

}  // namespace attest
