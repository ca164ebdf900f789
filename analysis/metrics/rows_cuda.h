// The device's counterpart of rows.h: what the CUDA code of a metric may look at, whole chunks of rows at a time, and
// where its cells lie.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string_view>
#include <vector>

#include "analysis/metrics/metric.h"
#include "kernels/attention/level_sums_cuda.h"
#include "kernels/device/stage_clock.h"
#include "kernels/selectors/cuda_chunk.h"

namespace attest {

struct CudaExactRanks;  // rank_correlation_cuda.h

/// Half-open, disjoint, ascending ranges of tokens of the sample.
struct DeviceSpans {
  const int2* ranges = nullptr;
  int count = 0;
};

/// Of the exact scores of a row: what other kernels go by.
struct RowStatistics {
  float* max = nullptr;      ///< [rows] m
  double* weight = nullptr;  ///< [rows] sum of exp(s - m)
};

/// The exact side of a chunk's rows.
struct CudaExactRows {
  const CudaChunk* chunk = nullptr;
  StageClock* clock = nullptr;
  RowStatistics statistics;  ///< filled by cuda_score_statistics()
  DeviceOutputs outputs;     ///< o and LSE, [rows, 1, ...]
  DeviceSpans spans;
  const CudaExactRanks* ranks = nullptr;  ///< of all visible tokens; null where no selector has an estimate
};

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

/// One selector's side of a chunk's rows.
struct CudaSelectorRows {
  const CudaExactRows* exact = nullptr;
  const CudaSelection* selection = nullptr;
  DeviceOutputs outputs;  ///< o^ and LSE^, [rows, places.count, ...]
  SettingPlaces places;
  QuerySettings<double> salient_deltas;  ///< delta_s of each query's ascending settings
  double fixed_salient_delta = 0;        ///< --salient-delta
  const std::vector<double>* lambdas = nullptr;

  const CudaChunk& chunk() const { return *exact->chunk; }
};

/// The arrays of one selector, or of the exact scores, in the layer's results.
class CudaCells {
 public:
  struct Array {
    std::string_view metric;
    float* cells = nullptr;         ///< in the layout of its axes
    HeadSums* head_sums = nullptr;  ///< [N, Hq, S] of a metric of the whole layer
  };
  explicit CudaCells(std::vector<Array> arrays) : arrays_(std::move(arrays)) {}

  /// Null where the layer does not have the metric: the span metrics of a sample without spans, for instance.
  float* of(std::string_view metric) const {
    const Array* array = find(metric);
    return array == nullptr ? nullptr : array->cells;
  }
  HeadSums* head_sums_of(std::string_view metric) const {
    const Array* array = find(metric);
    return array == nullptr ? nullptr : array->head_sums;
  }

 private:
  const Array* find(std::string_view metric) const {
    for (const Array& array : arrays_)
      if (array.metric == metric) return &array;
    return nullptr;
  }
  std::vector<Array> arrays_;
};

/// The sums of all heads of a layer, to be added up and combined into `cells` [N, S].
struct CudaLayerSums {
  const HeadSums* sums = nullptr;  ///< [N, Hq, S]
  int num_queries = 0, num_heads = 0, num_settings = 0;
  float* cells = nullptr;
  cudaStream_t stream = nullptr;
};

// Bytes that a stage over a chunk cannot do without.
double row_tokens(const CudaChunk& chunk);  ///< (row, visible token) pairs
double key_bytes(const CudaChunk& chunk);   ///< of all keys that some row sees
double value_bytes(const CudaChunk& chunk);

}  // namespace attest
