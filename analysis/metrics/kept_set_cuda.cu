// A block per row; each thread counts for a few settings at a time, whose sums are added up over the block in a fixed
// order.
#include "analysis/metrics/metrics_cuda.h"
#include "analysis/metrics/ratio.cuh"
#include "kernels/attention/level_sums_cuda.cuh"
#include "kernels/device/block_reduce.cuh"
#include "kernels/device/cuda_check.h"

namespace attest {
namespace {

constexpr int kThreads = 512;
constexpr float kNone = -3.402823466e+38f;
constexpr int kMostAtOnce = 4;  // settings that one pass over the row serves

struct Row {
  const float* scores;
  const Level* levels;
  int length;
  float max;
  double weight;  // sum of exp(s - max)

  __device__ int level(int j) const { return levels == nullptr ? 0 : levels[j]; }
};

/// What a thread finds for settings [first, first + kAtOnce). Masses, in units of exp(-max), are added in double for
/// every eight tokens: a row has up to millions.
template <int kAtOnce>
struct Counts {
  int kept[kAtOnce] = {}, salient[kAtOnce] = {}, kept_salient[kAtOnce] = {}, kept_fixed[kAtOnce] = {}, fixed = 0;
  double mass[kAtOnce] = {}, missed_mass[kAtOnce] = {};
  float dropped[kAtOnce];  // largest scores
};

/// `thresholds`: the least salient scores; `lowest` the least of them and of `fixed`.
template <int kAtOnce>
__device__ void count(const Row& row, int first, const float (&thresholds)[kAtOnce], float fixed, float lowest,
                      Counts<kAtOnce>& c) {
  float mass[kAtOnce] = {}, missed_mass[kAtOnce] = {};
#pragma unroll
  for (int i = 0; i < kAtOnce; ++i) c.dropped[i] = kNone;
  const auto add = [&](float s, int level) {
    const float weight = expf(s - row.max);
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const bool kept = level <= first + i;
      c.kept[i] += kept ? 1 : 0;
      mass[i] += kept ? weight : 0.0f;
      c.dropped[i] = fmaxf(c.dropped[i], kept ? kNone : s);
    }
    if (s < lowest) return;
    c.fixed += s >= fixed ? 1 : 0;
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const bool kept = level <= first + i, salient = s >= thresholds[i];
      c.kept_fixed[i] += kept && s >= fixed ? 1 : 0;
      c.salient[i] += salient ? 1 : 0;
      c.kept_salient[i] += kept && salient ? 1 : 0;
      missed_mass[i] += salient && !kept ? weight : 0.0f;
    }
  };
  for_eights(row.scores, row.levels, row.length, add, [&] {
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      c.mass[i] += static_cast<double>(mass[i]);
      c.missed_mass[i] += static_cast<double>(missed_mass[i]);
      mass[i] = missed_mass[i] = 0;
    }
  });
}

/// Scratch of block_reduce().
struct Shared {
  int ints[32];
  float floats[32];
  double doubles[32];
};

template <int kAtOnce>
__device__ void write_counts(const Row& row, const Counts<kAtOnce>& c, const DeviceRows& rows, int index, int first,
                             const SettingPlaces& places, const KeptSetArrays& out, Shared& shared) {
  const int fixed = block_reduce(c.fixed, shared.ints, Plus{});
#pragma unroll
  for (int i = 0; i < kAtOnce; ++i) {
    const int kept = block_reduce(c.kept[i], shared.ints, Plus{}),
              salient = block_reduce(c.salient[i], shared.ints, Plus{}),
              kept_salient = block_reduce(c.kept_salient[i], shared.ints, Plus{}),
              kept_fixed = block_reduce(c.kept_fixed[i], shared.ints, Plus{});
    const double mass = block_reduce(c.mass[i], shared.doubles, Plus{}),
                 missed = block_reduce(c.missed_mass[i], shared.doubles, Plus{});
    const float dropped = block_reduce(c.dropped[i], shared.floats, Larger{});
    if (threadIdx.x != 0 || first + i >= places.count) continue;
    const std::int64_t at = places.at(rows, index, first + i);
    out.keep_ratio[at] = ratio(kept, row.length);
    out.mass_recall[at] = static_cast<float>(mass / row.weight);
    out.dropped_gap[at] = kept == row.length ? __int_as_float(0x7FC00000) : row.max - dropped;
    out.salient_hit_rate[at] = ratio(kept_salient, salient);
    out.salient_ratio[at] = ratio(salient, row.length);
    out.salient_hit_rate_fixed[at] = ratio(kept_fixed, fixed);
    out.missed_salient_mass[at] = static_cast<float>(missed / row.weight);
  }
}

template <int kAtOnce>
__device__ void count_spans(const Row& row, const DeviceSpans& spans, int first_key, const DeviceRows& rows, int index,
                            int first, const SettingPlaces& places, const KeptSetArrays& out, Shared& shared) {
  int tokens = 0, kept[kAtOnce] = {};
  double mass[kAtOnce] = {};
  for (int s = 0; s < spans.count; ++s) {
    const int begin = max(0, spans.ranges[s].x - first_key), end = min(row.length, spans.ranges[s].y - first_key);
    for (int j = begin + static_cast<int>(threadIdx.x); j < end; j += kThreads) {
      const float p = expf(row.scores[j] - row.max);
      const int level = row.level(j);
      ++tokens;
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        kept[i] += level <= first + i ? 1 : 0;
        mass[i] += level <= first + i ? p : 0.0f;
      }
    }
  }
  tokens = block_reduce(tokens, shared.ints, Plus{});
#pragma unroll
  for (int i = 0; i < kAtOnce; ++i) {
    const int all_kept = block_reduce(kept[i], shared.ints, Plus{});
    const double all_mass = block_reduce(mass[i], shared.doubles, Plus{});
    if (threadIdx.x != 0 || first + i >= places.count) continue;
    const std::int64_t at = places.at(rows, index, first + i);
    out.span_keep[at] = ratio(all_kept, tokens);
    out.span_mass_kept[at] = tokens > 0 ? static_cast<float>(all_mass / row.weight) : __int_as_float(0x7FC00000);
  }
}

template <int kAtOnce>
__global__ void __launch_bounds__(kThreads)
    kept_set_kernel(DeviceRows rows, KeptSetInput in, SettingPlaces places, KeptSetArrays out) {
  __shared__ Shared shared;
  const int index = blockIdx.x;
  const Row row{in.scores + index * rows.stride, in.levels == nullptr ? nullptr : in.levels + index * rows.stride,
                rows.visible[index], in.statistics.max[index], in.statistics.weight[index]};
  const double max = row.max;
  const double* deltas = in.salient_deltas + static_cast<std::int64_t>(rows.query[index]) * places.count;
  const float fixed =
      __double2float_ru(max - in.fixed_salient_delta);  // s >= x in double is s >= (x rounded up) in float
  for (int first = 0; first < places.count; first += kAtOnce) {
    float thresholds[kAtOnce], lowest = fixed;
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      thresholds[i] = __double2float_ru(max - deltas[::min(first + i, places.count - 1)]);
      lowest = fminf(lowest, thresholds[i]);
    }
    Counts<kAtOnce> counts;
    count(row, first, thresholds, fixed, lowest, counts);
    write_counts(row, counts, rows, index, first, places, out, shared);
    if (out.span_keep != nullptr)
      count_spans<kAtOnce>(row, in.spans, rows.origins[rows.origin[index]].first_key, rows, index, first, places, out,
                           shared);
  }
}

}  // namespace

void kept_set(const DeviceRows& rows, const KeptSetInput& in, const SettingPlaces& places, const KeptSetArrays& out,
              cudaStream_t stream) {
  if (places.count == 1)
    kept_set_kernel<1><<<rows.num_rows, kThreads, 0, stream>>>(rows, in, places, out);
  else if (places.count == 2)
    kept_set_kernel<2><<<rows.num_rows, kThreads, 0, stream>>>(rows, in, places, out);
  else if (places.count > kMostAtOnce && places.count <= kMostSettingsInOnePass)
    return kept_set_of_many(rows, in, places, out, stream);
  else
    kept_set_kernel<kMostAtOnce><<<rows.num_rows, kThreads, 0, stream>>>(rows, in, places, out);
  ATTEST_CUDA_LAUNCHED(kept_set_kernel);
}

}  // namespace attest
