// A block per row: histograms over entry levels in shared memory, then sums up to every setting. Counts are integers and masses
// fixed-point, so the order of additions changes nothing.
#include <string>

#include "analysis/metrics/device_metrics.h"
#include "dumps/error.h"
#include "kernels/attention/level_sums.cuh"
#include "kernels/device/block_reduce.cuh"
#include "kernels/device/cuda_check.h"

namespace attest {
namespace {

constexpr int kThreads = 512;
using Mass = FixedPoint<60>;
using Word = unsigned long long;

/// Bins 0 .. S, the last for what no setting keeps. `first`: tokens counted from the first setting for which they are salient;
/// `salient`: from the first that keeps them, too.
struct Histograms {
  Word *mass, *first_mass, *salient_mass, *span_mass;
  double* thresholds;  // [S] least salient score of each setting
  int *tokens, *first, *salient, *fixed, *spans;
  std::uint32_t* max;  // images

  static constexpr std::size_t bytes(int settings) { return static_cast<std::size_t>(settings + 1) * (5 * 8 + 6 * 4); }
  __device__ Histograms(Word* shared, int settings) {
    const int bins = settings + 1;
    mass = shared, first_mass = mass + bins, salient_mass = first_mass + bins, span_mass = salient_mass + bins;
    thresholds = reinterpret_cast<double*>(span_mass + bins);
    tokens = reinterpret_cast<int*>(thresholds + bins);
    first = tokens + bins, salient = first + bins, fixed = salient + bins, spans = fixed + bins;
    max = reinterpret_cast<std::uint32_t*>(spans + bins);
  }
};

struct Row {
  const float* scores;
  const Level* levels;
  int length, settings;
  double lse;

  __device__ double probability(float s) const { return expf(static_cast<float>(s - lse)); }
  __device__ int level(int j) const { return levels == nullptr ? 0 : levels[j]; }
};

/// Of runs of equal levels, so that few additions meet in one bin.
__device__ void count_tokens(const Row& row, const Histograms& h) {
  int level = row.settings, tokens = 0;
  double mass = 0;
  float best = 0;
  for_tokens(row.scores, row.levels, row.length, [&](float s, int here) {
    if (here != level) {
      if (tokens > 0) {
        atomicAdd(&h.tokens[level], tokens);
        atomicAdd(&h.mass[level], Mass::from(mass));
        atomicMax(&h.max[level], ordered_image(best));
      }
      level = here, tokens = 0, mass = 0;
    }
    best = tokens == 0 ? s : fmaxf(best, s);
    ++tokens;
    mass += row.probability(s);
  });
  for_levels_of_warp(level, [&](int here, bool takes_part) {
    const bool counts = takes_part && tokens > 0;
    const int sum = warp_reduce(counts ? tokens : 0, Plus{});
    const Word mass_sum = warp_reduce(counts ? Mass::from(mass) : Word{0}, Plus{});
    const std::uint32_t most = warp_reduce(counts ? ordered_image(best) : 0u, Larger{});
    if (threadIdx.x % 32 != 0 || sum == 0) return;
    atomicAdd(&h.tokens[here], sum);
    atomicAdd(&h.mass[here], mass_sum);
    atomicMax(&h.max[here], most);
  });
}

__device__ void count_salient(const Row& row, const Histograms& h, double fixed) {
  const double lowest = fmin(fixed, h.thresholds[row.settings - 1]);
  for (int j = threadIdx.x; j < row.length; j += kThreads) {
    const float s = row.scores[j];
    if (s < lowest) continue;
    const int level = row.level(j);
    if (s >= fixed) atomicAdd(&h.fixed[level], 1);
    int first = 0, end = row.settings;
    while (first < end) {
      const int middle = (first + end) / 2;
      if (s < h.thresholds[middle])
        first = middle + 1;
      else
        end = middle;
    }
    if (first == row.settings) continue;
    const Word mass = Mass::from(row.probability(s));
    const int kept = max(first, level);
    atomicAdd(&h.first[first], 1);
    atomicAdd(&h.salient[kept], 1);
    atomicAdd(&h.first_mass[first], mass);
    atomicAdd(&h.salient_mass[kept], mass);
  }
}

__device__ void count_spans(const Row& row, const Histograms& h, const DeviceSpans& spans, int first_key) {
  for (int i = 0; i < spans.count; ++i) {
    const int begin = max(0, spans.ranges[i].x - first_key), end = min(row.length, spans.ranges[i].y - first_key);
    for (int j = begin + static_cast<int>(threadIdx.x); j < end; j += kThreads) {
      atomicAdd(&h.spans[row.level(j)], 1);
      atomicAdd(&h.span_mass[row.level(j)], Mass::from(row.probability(row.scores[j])));
    }
  }
}

__device__ float ratio(int numerator, int denominator) {
  return denominator > 0 ? static_cast<float>(static_cast<double>(numerator) / denominator) : __int_as_float(0x7FC00000);
}

__global__ void __launch_bounds__(kThreads) kept_set_kernel(DeviceRows rows, KeptSetInput in, SettingPlaces places, KeptSetArrays out) {
  extern __shared__ Word shared[];
  const int index = blockIdx.x, settings = places.count;
  const Histograms h(shared, settings);
  const Row row{in.scores + index * rows.stride, in.levels == nullptr ? nullptr : in.levels + index * rows.stride, rows.visible[index],
                settings, in.statistics.lse[index]};
  const double max = in.statistics.max[index];
  for (int i = threadIdx.x; i <= settings; i += kThreads) {
    h.mass[i] = h.first_mass[i] = h.salient_mass[i] = h.span_mass[i] = 0;
    h.tokens[i] = h.first[i] = h.salient[i] = h.fixed[i] = h.spans[i] = 0;
    h.max[i] = 0;
    if (i < settings) h.thresholds[i] = max - in.salient_deltas[static_cast<std::int64_t>(rows.query[index]) * settings + i];
  }
  __syncthreads();
  count_tokens(row, h);
  count_salient(row, h, max - in.fixed_salient_delta);
  count_spans(row, h, in.spans, rows.origins[rows.origin[index]].first_key);
  __syncthreads();

  // One warp for each family of sums; each is short.
  const int family = static_cast<int>(threadIdx.x) / 32;
  if (threadIdx.x % 32 != 0) return;
  if (family == 0) {
    int kept = 0;
    Word mass = 0;
    for (int i = 0; i < settings; ++i) {
      const std::int64_t at = places.at(rows, index, i);
      out.keep_ratio[at] = ratio(kept += h.tokens[i], row.length);
      out.mass_recall[at] = static_cast<float>(Mass::to(mass += h.mass[i]));
    }
  } else if (family == 1) {
    std::uint32_t dropped = h.max[settings];
    for (int i = settings; i-- > 0;) {
      out.dropped_gap[places.at(rows, index, i)] =
          dropped == 0 ? __int_as_float(0x7FC00000) : static_cast<float>(max - from_ordered_image(dropped));
      dropped = ::max(dropped, h.max[i]);
    }
  } else if (family == 2) {
    int tokens = 0, kept = 0;
    Word mass = 0, kept_mass = 0;
    for (int i = 0; i < settings; ++i) {
      const std::int64_t at = places.at(rows, index, i);
      tokens += h.first[i], kept += h.salient[i], mass += h.first_mass[i], kept_mass += h.salient_mass[i];
      out.salient_hit_rate[at] = ratio(kept, tokens);
      out.salient_ratio[at] = ratio(tokens, row.length);
      out.missed_salient_mass[at] = kept == tokens || kept_mass > mass ? 0.0f : static_cast<float>(Mass::to(mass - kept_mass));
    }
  } else if (family == 3) {
    int total = 0, kept = 0;
    for (int i = 0; i <= settings; ++i) total += h.fixed[i];
    for (int i = 0; i < settings; ++i) out.salient_hit_rate_fixed[places.at(rows, index, i)] = ratio(kept += h.fixed[i], total);
  } else if (family == 4 && out.span_keep != nullptr) {
    int total = 0, kept = 0;
    Word mass = 0;
    for (int i = 0; i <= settings; ++i) total += h.spans[i];
    for (int i = 0; i < settings; ++i) {
      const std::int64_t at = places.at(rows, index, i);
      out.span_keep[at] = ratio(kept += h.spans[i], total);
      mass += h.span_mass[i];
      out.span_mass_kept[at] = total > 0 ? static_cast<float>(Mass::to(mass)) : __int_as_float(0x7FC00000);
    }
  }
}

}  // namespace

void kept_set(const DeviceRows& rows, const KeptSetInput& in, const SettingPlaces& places, const KeptSetArrays& out, cudaStream_t stream) {
  const std::size_t bytes = Histograms::bytes(places.count);
  if (bytes > (std::size_t{96} << 10))
    throw UsageError("a grid of " + std::to_string(places.count) + " settings is more than the GPU study takes (" +
                     std::to_string((std::size_t{96} << 10) / Histograms::bytes(0) - 1) + "); give it in parts");
  ATTEST_CUDA(cudaFuncSetAttribute(kept_set_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)));
  kept_set_kernel<<<rows.num_rows, kThreads, bytes, stream>>>(rows, in, places, out);
  ATTEST_CUDA_LAUNCHED(kept_set_kernel);
}

}  // namespace attest
