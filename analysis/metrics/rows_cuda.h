// The CUDA counterpart of rows.h: input of the metrics' CUDA functions, one chunk of rows at a time, and the cells that
// they fill.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string_view>
#include <vector>

#include "analysis/metrics/metric.h"
#include "analysis/metrics/span_tokens.h"
#include "kernels/attention/level_sums_cuda.h"
#include "kernels/device/stage_clock.h"
#include "kernels/selectors/cuda_chunk.h"

namespace attest {

struct CudaExactRanks;  // rank_correlation_cuda.h

/// The sample's spans: half-open, disjoint, ascending ranges of tokens.
struct DeviceSpans {
  const int2* ranges = nullptr;
  int count = 0;
};

/// Statistics of the exact scores that other kernels need.
struct RowStatistics {
  float* max = nullptr;      ///< [rows] m
  double* weight = nullptr;  ///< [rows] sum of exp(s - m)
};

/// Exact attention of a chunk's rows.
struct CudaExactRows {
  const CudaChunk* chunk = nullptr;
  StageClock* clock = nullptr;
  RowStatistics statistics;  ///< filled by cuda_score_statistics()
  DeviceOutputs outputs;     ///< o and LSE, [rows, 1, ...]
  DeviceSpans spans;
  const double* head_weights = nullptr;  ///< [Hq]; null if the layer has no head gradients
  int num_query_heads = 0;
  const float* output_gradient = nullptr;  ///< [rows, Dv]; null if the layer has no output gradients
  const CudaExactRanks* ranks = nullptr;   ///< of all visible tokens; null if no selector has an estimate
};

/// Positions of a row's settings in [N, Hq, S] arrays: ascending setting i of query n is element offsets[n * count + i]
/// of the S = `total` elements.
struct SettingOffsets {
  const int* offsets = nullptr;
  int count = 0;
  int total = 0;  ///< S of the results

#ifdef __CUDACC__
  __device__ std::int64_t at(const DeviceRows& rows, int row, int i) const {
    return static_cast<std::int64_t>(rows.cell[row]) * total +
           offsets[static_cast<std::int64_t>(rows.query[row]) * count + i];
  }
#endif
};

/// One selector's results for a chunk's rows.
struct CudaSelectorRows {
  const CudaExactRows* exact = nullptr;
  const CudaSelection* selection = nullptr;
  DeviceOutputs outputs;  ///< o^ and LSE^, [rows, offsets.count, ...]
  SettingOffsets offsets;
  QuerySettings<double> salient_deltas;  ///< delta_s of each query's ascending settings
  double fixed_salient_delta = 0;        ///< --salient-delta
  const std::vector<double>* lambdas = nullptr;

  const CudaChunk& chunk() const { return *exact->chunk; }
};

/// The result arrays of one selector, or of the exact scores, of a layer.
class CudaCells {
 public:
  struct Array {
    std::string_view metric;
    float* cells = nullptr;         ///< shaped by the metric's axes
    HeadSums* head_sums = nullptr;  ///< [N, Hq, S], for a metric of the whole layer
  };
  explicit CudaCells(std::vector<Array> arrays, const SpanBits& span_bits = {})
      : arrays_(std::move(arrays)), span_bits_(span_bits) {}

  /// Null if the layer does not have the metric, for instance a span metric of a sample without spans.
  float* of(std::string_view metric) const {
    const Array* array = find(metric);
    return array == nullptr ? nullptr : array->cells;
  }
  HeadSums* head_sums_of(std::string_view metric) const {
    const Array* array = find(metric);
    return array == nullptr ? nullptr : array->head_sums;
  }

  /// The bits of the selector's span tokens; `words` is 0 if no metric needs them.
  const SpanBits& span_bits() const { return span_bits_; }

 private:
  const Array* find(std::string_view metric) const {
    for (const Array& array : arrays_)
      if (array.metric == metric) return &array;
    return nullptr;
  }
  std::vector<Array> arrays_;
  SpanBits span_bits_;
};

/// The head sums of a layer metric. They are added over the heads and combined into `cells` [N, S].
struct CudaLayerSums {
  const HeadSums* sums = nullptr;  ///< [N, Hq, S]
  int num_queries = 0, num_heads = 0, num_settings = 0;
  float* cells = nullptr;
  cudaStream_t stream = nullptr;
};

/// The bits of a layer's span tokens, which become the cells of a metric: [N, S] or [N, S, T].
struct CudaSpanTokens {
  SpanBits bits;
  const SpanTokenRange* seen = nullptr;  ///< [N]
  int num_queries = 0, num_settings = 0;
  float* cells = nullptr;
  cudaStream_t stream = nullptr;
};

// Sizes from which the least memory traffic of a stage is computed.
double row_tokens(const CudaChunk& chunk);  ///< number of (row, visible token) pairs
double key_bytes(const CudaChunk& chunk);   ///< bytes of all keys that at least one row sees
double value_bytes(const CudaChunk& chunk);

}  // namespace attest
