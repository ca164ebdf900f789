// Metrics of the kept set on the device, all settings in one pass: histograms over entry levels in shared memory, then
// prefix sums over the settings. To save atomic operations, a thread sums runs of neighbouring tokens before it adds
// them to a bin. All bins are integers, so the sums do not depend on the order of the additions. The masses of a row
// add up to 1 and are counted in units of 2^-40: every run is rounded, and a million equal weights in units of 2^-31
// would miss 2e-4 of the mass.
#include <stdexcept>

#include "analysis/metrics/kept_set.h"
#include "analysis/metrics/ratio.cuh"
#include "analysis/metrics/rows_cuda.h"
#include "kernels/attention/level_sums_cuda.cuh"
#include "kernels/base/setting.h"
#include "kernels/device/block_reduce.cuh"
#include "kernels/device/cuda_check.h"
#include "kernels/device/first_where.cuh"
#include "kernels/device/multiprocessor.h"
#include "kernels/device/not_defined.cuh"

namespace attest {
namespace {

constexpr int kKeptSetThreads = 512;
using Mass = unsigned long long;
constexpr double kMassUnits = 1ull << 40;

/// Outputs, [N, Hq, S] each. The span metrics are null if the sample has no spans.
struct KeptSetArrays {
  float *mass_recall, *keep_ratio, *salient_hit_rate, *salient_hit_rate_fixed, *salient_ratio, *missed_salient_mass,
      *dropped_gap, *span_keep, *span_mass_kept;
};

struct Input {
  const float* scores;  ///< exact [rows, stride]
  const Level* levels;  ///< [rows, stride]; null: all levels are 0
  RowStatistics statistics;
  QuerySettings<double> salient_deltas;
  double fixed_salient_delta;
  DeviceSpans spans;
};

/// Bins 0 .. S in shared memory; bin S is for tokens that no setting keeps.
struct Histograms {
  int *tokens, *fixed;     // by level: all tokens, and those within the fixed delta
  int* salient;            // salient tokens by the first setting for which they are salient
  int* kept_salient;       // salient tokens by the first setting that also keeps them
  int* spans;              // span tokens by level
  Mass *mass, *span_mass;  // by level
  // Mass of missed salient tokens: added at the setting where a token becomes salient, subtracted (modulo 2^64) at the
  // setting that keeps it.
  Mass* missed;
  std::uint32_t* largest;  // largest score by level, as ordered_bits()
  float* thresholds;       // [S] lowest score that is salient for each setting

  static constexpr std::size_t bytes(int settings) {
    return static_cast<std::size_t>(settings + 1) * (3 * sizeof(Mass) + 7 * 4);
  }
  __device__ Histograms(Mass* shared, int settings) {
    const int bins = settings + 1;
    mass = shared, span_mass = mass + bins, missed = span_mass + bins;
    tokens = reinterpret_cast<int*>(missed + bins), fixed = tokens + bins, salient = fixed + bins,
    kept_salient = salient + bins, spans = kept_salient + bins;
    largest = reinterpret_cast<std::uint32_t*>(spans + bins);
    thresholds = reinterpret_cast<float*>(largest + bins);
  }
};

static_assert(Histograms::bytes(kMaxSettings) <= 64 * 1024, "any GPU since Turing gives this to a thread block");

struct Row {
  const float* scores;
  const Level* levels;
  int length, settings;
  float max, units;  // mass units for a weight exp(s - max) of 1

  __device__ Mass mass(float weight) const { return __float2ull_rn(weight * units); }
};

/// First setting for which a score is salient; S if there is none.
__device__ int first_salient(const Row& row, const Histograms& h, float s) {
  return first_where(row.settings, [&](int i) { return !(s < h.thresholds[i]); });
}

/// Adds the thread's tokens to the bins. Neighbouring tokens of one level are added together, and so are neighbouring
/// salient tokens of one level and one first setting.
__device__ void count_tokens(const Row& row, const Histograms& h, float fixed) {
  const float lowest = fminf(fixed, h.thresholds[row.settings - 1]);
  int level = 0, tokens = 0;
  float weight = 0, best = 0;
  int salient_level = 0, first = row.settings, salient = 0, tokens_fixed = 0;
  float salient_weight = 0;
  const auto flush = [&] {
    if (tokens == 0) return;
    atomicAdd(&h.tokens[level], tokens);
    add_atomically(&h.mass[level], row.mass(weight));
    atomicMax(&h.largest[level], ordered_bits(best));
    tokens = 0;
    weight = 0;
  };
  const auto flush_salient = [&] {
    if (tokens_fixed > 0) atomicAdd(&h.fixed[salient_level], tokens_fixed);
    if (salient > 0 && first < row.settings) {
      atomicAdd(&h.salient[first], salient);
      atomicAdd(&h.kept_salient[max(first, salient_level)], salient);
      if (salient_level > first) {
        const Mass mass = row.mass(salient_weight);
        add_atomically(&h.missed[first], mass);
        add_atomically(&h.missed[salient_level], Mass{0} - mass);
      }
    }
    salient = tokens_fixed = 0;
    salient_weight = 0;
  };
  for_token_octets(
      row.scores, row.levels, row.length,
      [&](float s, int here) {
        if (here != level) flush();
        level = here;
        best = tokens == 0 ? s : fmaxf(best, s);
        const float w = expf(s - row.max);
        weight += w;
        ++tokens;
        if (s < lowest) return;
        const int own = first_salient(row, h, s);
        if (own != first || here != salient_level) flush_salient();
        first = own, salient_level = here;
        ++salient;
        tokens_fixed += s >= fixed ? 1 : 0;
        salient_weight += w;
      },
      [&] {
        flush();
        flush_salient();
      });
}

__device__ void count_spans(const Row& row, const Histograms& h, const DeviceSpans& spans, int first_key) {
  for (int i = 0; i < spans.count; ++i) {
    const int begin = max(0, spans.ranges[i].x - first_key), end = min(row.length, spans.ranges[i].y - first_key);
    for (int j = begin + static_cast<int>(threadIdx.x); j < end; j += kKeptSetThreads) {
      const int level = row.levels == nullptr ? 0 : row.levels[j];
      atomicAdd(&h.spans[level], 1);
      add_atomically(&h.span_mass[level], row.mass(expf(row.scores[j] - row.max)));
    }
  }
}

__device__ float mass_of(Mass units) { return static_cast<float>(static_cast<double>(units) / kMassUnits); }

__global__ void __launch_bounds__(kKeptSetThreads)
    kept_set_kernel(DeviceRows rows, Input in, SettingOffsets offsets, KeptSetArrays out) {
  extern __shared__ Mass histograms[];
  const int index = blockIdx.x, settings = offsets.count;
  const Histograms h(histograms, settings);
  const Row row{in.scores + index * rows.stride,
                in.levels == nullptr ? nullptr : in.levels + index * rows.stride,
                rows.visible[index],
                settings,
                in.statistics.max[index],
                static_cast<float>(kMassUnits / in.statistics.weight[index])};
  const double max = row.max;
  for (int i = threadIdx.x; i <= settings; i += kKeptSetThreads) {
    h.tokens[i] = h.fixed[i] = h.salient[i] = h.kept_salient[i] = h.spans[i] = 0;
    h.mass[i] = h.span_mass[i] = h.missed[i] = h.largest[i] = 0;
    if (i < settings) h.thresholds[i] = __double2float_ru(max - in.salient_deltas.of_row(index)[i]);
  }
  __syncthreads();
  // A float s is >= x in double exactly if it is >= x rounded up to float.
  count_tokens(row, h, __double2float_ru(max - in.fixed_salient_delta));
  count_spans(row, h, in.spans, rows.origins[rows.origin[index]].first_key);
  __syncthreads();

  // Five families of prefix sums, each by the first thread of its own warp.
  const int family = static_cast<int>(threadIdx.x) / 32;
  if (threadIdx.x % 32 != 0) return;
  if (family == 0) {
    int kept = 0;
    Mass mass = 0;
    for (int i = 0; i < settings; ++i) {
      const std::int64_t at = offsets.at(rows, index, i);
      out.keep_ratio[at] = ratio(kept += h.tokens[i], row.length);
      out.mass_recall[at] = mass_of(mass += h.mass[i]);
    }
  } else if (family == 1) {
    std::uint32_t dropped = h.largest[settings];
    for (int i = settings; i-- > 0;) {
      out.dropped_gap[offsets.at(rows, index, i)] = dropped == 0 ? not_defined() : row.max - from_ordered_bits(dropped);
      dropped = ::max(dropped, h.largest[i]);
    }
  } else if (family == 2) {
    int tokens = 0, kept = 0;
    Mass missed = 0;
    for (int i = 0; i < settings; ++i) {
      const std::int64_t at = offsets.at(rows, index, i);
      tokens += h.salient[i], kept += h.kept_salient[i], missed += h.missed[i];
      out.salient_hit_rate[at] = ratio(kept, tokens);
      out.salient_ratio[at] = ratio(tokens, row.length);
      out.missed_salient_mass[at] = mass_of(missed);
    }
  } else if (family == 3) {
    int total = 0, kept = 0;
    for (int i = 0; i <= settings; ++i) total += h.fixed[i];
    for (int i = 0; i < settings; ++i)
      out.salient_hit_rate_fixed[offsets.at(rows, index, i)] = ratio(kept += h.fixed[i], total);
  } else if (family == 4 && out.span_keep != nullptr) {
    int total = 0, kept = 0;
    Mass mass = 0;
    for (int i = 0; i <= settings; ++i) total += h.spans[i];
    for (int i = 0; i < settings; ++i) {
      const std::int64_t at = offsets.at(rows, index, i);
      out.span_keep[at] = ratio(kept += h.spans[i], total);
      mass += h.span_mass[i];
      out.span_mass_kept[at] = total > 0 ? mass_of(mass) : not_defined();
    }
  }
}

}  // namespace

void cuda_kept_set(const CudaSelectorRows& rows, const CudaCells& cells) {
  const CudaChunk& chunk = rows.chunk();
  const Level* levels = rows.selection->levels;
  const int settings = rows.offsets.count;
  if (settings > kMaxSettings) throw std::logic_error("cuda_kept_set: more settings than a grid may have");
  const double bytes_of_token = levels != nullptr ? 4 + sizeof(Level) : 4;
  const StageClock::Stage stage(*rows.exact->clock, "kept set", chunk.stream, bytes_of_token * row_tokens(chunk));
  const Input in{.scores = chunk.exact,
                 .levels = levels,
                 .statistics = rows.exact->statistics,
                 .salient_deltas = rows.salient_deltas,
                 .fixed_salient_delta = rows.fixed_salient_delta,
                 .spans = rows.exact->spans};
  const KeptSetArrays out{.mass_recall = cells.of("mass_recall"),
                          .keep_ratio = cells.of("keep_ratio"),
                          .salient_hit_rate = cells.of("salient_hit_rate"),
                          .salient_hit_rate_fixed = cells.of("salient_hit_rate_fixed"),
                          .salient_ratio = cells.of("salient_ratio"),
                          .missed_salient_mass = cells.of("missed_salient_mass"),
                          .dropped_gap = cells.of("dropped_gap"),
                          .span_keep = cells.of("span_keep"),
                          .span_mass_kept = cells.of("span_mass_kept")};
  allow_shared_memory(kept_set_kernel, Histograms::bytes(kMaxSettings));
  kept_set_kernel<<<chunk.rows.num_rows, kKeptSetThreads, Histograms::bytes(settings), chunk.stream>>>(
      chunk.rows, in, rows.offsets, out);
  ATTEST_CUDA_LAUNCHED(kept_set_kernel);
}

}  // namespace attest
