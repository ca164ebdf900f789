// The metrics of metric.h on the device: the same definitions, whole layers at a time, straight into the layout of the
// results.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/attention/level_sums_cuda.h"
#include "kernels/device/device_rows.h"
#include "kernels/selectors/selector.h"

namespace attest {

/// Half-open, disjoint, ascending ranges of tokens of the sample.
struct DeviceSpans {
  const int2* ranges = nullptr;
  int count = 0;
};

/// Of a row's exact scores: what other kernels go by.
struct RowStatistics {
  float* max = nullptr;      ///< [rows] m
  double* weight = nullptr;  ///< [rows] sum of exp(s - m)
  double* lse = nullptr;     ///< [rows]
};

/// [N, Hq] each; span_mass null where the sample has no spans.
struct ScoreMetricArrays {
  float *lse = nullptr, *top1_top2_gap = nullptr, *score_std = nullptr, *entropy = nullptr, *span_mass = nullptr;
};

void score_statistics(const DeviceRows& rows, const float* scores, const DeviceSpans& spans,
                      const RowStatistics& statistics, const ScoreMetricArrays& out, cudaStream_t stream);

/// Where the settings of a row stand in [N, Hq, S] arrays: ascending setting i of query n at places[n * count + i] of
/// `total`.
struct SettingPlaces {
  const int* places = nullptr;
  int count = 0;
  int total = 0;  ///< S of the results

#ifdef __CUDACC__
  __device__ std::int64_t at(const DeviceRows& rows, int row, int i) const {
    return static_cast<std::int64_t>(rows.cell[row]) * total +
           places[static_cast<std::int64_t>(rows.query[row]) * count + i];
  }
#endif
};

/// [N, Hq, S] each; the span metrics null where the sample has no spans.
struct KeptSetArrays {
  float *mass_recall = nullptr, *keep_ratio = nullptr, *salient_hit_rate = nullptr, *salient_hit_rate_fixed = nullptr,
        *salient_ratio = nullptr, *missed_salient_mass = nullptr, *dropped_gap = nullptr, *span_keep = nullptr,
        *span_mass_kept = nullptr;
};

struct KeptSetInput {
  const float* scores = nullptr;  ///< exact [rows, stride]
  const Level* levels = nullptr;  ///< [rows, stride]; null: all 0
  RowStatistics statistics;
  const double* salient_deltas = nullptr;  ///< [queries, places.count]
  double fixed_salient_delta = 0;
  DeviceSpans spans;
};
void kept_set(const DeviceRows& rows, const KeptSetInput& in, const SettingPlaces& places, const KeptSetArrays& out,
              cudaStream_t stream);
/// The way of kept_set() for up to 1200 settings in one pass, whose cost hardly hangs on how many they are.
inline constexpr int kMostSettingsInOnePass = 1200;
void kept_set_of_many(const DeviceRows& rows, const KeptSetInput& in, const SettingPlaces& places,
                      const KeptSetArrays& out, cudaStream_t stream);

/// Bytes read for a query and KV head: costs[g] of group g = rows [g G, (g + 1) G), plus bytes_per_base for each of
/// base_kept[g] tokens where a selector counts those on the device.
struct DeviceIoCost {
  const IoCost* costs = nullptr;  ///< [rows / G]
  const int* base_kept = nullptr;
  double bytes_per_base = 0;
  double dense_token_bytes = 0;
};
void io_ratio(const DeviceRows& rows, const Level* levels, const DeviceIoCost& cost, const SettingPlaces& places,
              float* out, cudaStream_t stream);

/// What recall_layer sums over heads: [N, Hq, S].
struct OutputProducts {
  double dot, square, exact_square;
};
struct OutputFidelityArrays {
  float *recall = nullptr, *output_error = nullptr, *lse_error = nullptr;  ///< [N, Hq, S]
  OutputProducts* products = nullptr;                                      ///< [N, Hq, S]
};
/// outputs of the selector [rows, places.count, ...], of exact attention [rows, 1, ...].
void output_fidelity(const DeviceRows& rows, const DeviceOutputs& outputs, const DeviceOutputs& exact, int value_dim,
                     const SettingPlaces& places, const OutputFidelityArrays& out, cudaStream_t stream);
/// recall_layer [N, S].
void recall_layer(const OutputProducts* products, int num_queries, int num_heads, int num_settings, float* out,
                  cudaStream_t stream);

/// [N, Hq] each, the tails [N, Hq, M].
struct EstimateArrays {
  float *pearson = nullptr, *mean = nullptr, *std = nullptr, *max = nullptr, *tail = nullptr, *lower_tail = nullptr;
};
/// Of s^ - s over tokens 0 .. covered[r] - 1, and Pearson's r of s^ and s.
void estimate_moments(const DeviceRows& rows, const float* estimate, const float* exact, const int* covered,
                      const double* lambdas, int num_lambdas, const EstimateArrays& out, cudaStream_t stream);

/// Of metrics that a selector itself defines: values [rows, per_row] to their cells; where `places` is given, per_row
/// settings.
void place_row_values(const DeviceRows& rows, const float* values, float* out, cudaStream_t stream);
void place_setting_values(const DeviceRows& rows, const float* values, const SettingPlaces& places, float* out,
                          cudaStream_t stream);

/// NaN everywhere.
void fill_undefined(float* values, std::int64_t count, cudaStream_t stream);

}  // namespace attest
