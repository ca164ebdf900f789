// Metrics of the exact scores on the device: one thread block per row and two passes, first maxima and moments, then
// sums of exp(s - max).
#include "analysis/metrics/rows_cuda.h"
#include "analysis/metrics/score_statistics.h"
#include "kernels/attention/sinks.cuh"
#include "kernels/device/block_reduce.cuh"
#include "kernels/device/cuda_check.h"
#include "kernels/device/not_defined.cuh"

namespace attest {
namespace {

constexpr int kStatisticsThreads = 512;

/// Outputs, [N, Hq] each. span_mass is null if the sample has no spans, sink_mass if the layer has no learned sinks.
struct StatisticsArrays {
  float *lse, *top1_top2_gap, *score_std, *entropy, *span_mass, *sink_mass;
};

/// Merges two words, each of which holds the ordered_bits() of its two largest scores: the largest in the upper half.
struct TwoLargest {
  __device__ unsigned long long operator()(unsigned long long a, unsigned long long b) const {
    const unsigned long long high = max(a, b), low = min(a, b);
    const unsigned long long second = max(high & 0xFFFFFFFFull, low >> 32);
    return (high & ~0xFFFFFFFFull) | second;
  }
};

__global__ void __launch_bounds__(kStatisticsThreads)
    score_statistics_kernel(DeviceRows rows, const float* all, DeviceSpans spans, RowStatistics statistics,
                            StatisticsArrays out) {
  __shared__ unsigned long long words[32];
  __shared__ double sums[32];
  __shared__ int counts[32];
  const int row = blockIdx.x, length = rows.visible[row], cell = rows.cell[row];
  const float* scores = all + row * rows.stride;
  const float origin = scores[0];
  unsigned long long two = 0;
  double sum = 0, squares = 0;
  for (int j = threadIdx.x; j < length; j += kStatisticsThreads) {
    const float s = scores[j];
    two = TwoLargest{}(two, static_cast<unsigned long long>(ordered_bits(s)) << 32);
    const double d = static_cast<double>(s) - origin;
    sum += d;
    squares += d * d;
  }
  two = block_reduce(two, words, TwoLargest{});
  sum = block_reduce(sum, sums, Plus{});
  squares = block_reduce(squares, sums, Plus{});
  const float max = from_ordered_bits(static_cast<std::uint32_t>(two >> 32)),
              second = from_ordered_bits(static_cast<std::uint32_t>(two));

  double weight = 0, weighted_gap = 0;  // sums of exp(s - m) and of exp(s - m) (m - s)
  for (int j = threadIdx.x; j < length; j += kStatisticsThreads) {
    const float below = scores[j] - max, w = expf(below);
    weight += w;
    weighted_gap -= static_cast<double>(w) * below;
  }
  weight = block_reduce(weight, sums, Plus{});
  weighted_gap = block_reduce(weighted_gap, sums, Plus{});
  const double keys_lse = max + log(weight);

  double on_spans = 0;
  int span_tokens = 0;
  const int first_key = rows.origins[rows.origin[row]].first_key;
  for (int i = 0; i < spans.count; ++i) {
    const int begin = ::max(0, spans.ranges[i].x - first_key), end = min(length, spans.ranges[i].y - first_key);
    for (int j = begin + static_cast<int>(threadIdx.x); j < end; j += kStatisticsThreads) {
      on_spans += expf(static_cast<float>(scores[j] - keys_lse));
      ++span_tokens;
    }
  }
  on_spans = block_reduce(on_spans, sums, Plus{});
  span_tokens = block_reduce(span_tokens, counts, Plus{});

  if (threadIdx.x != 0) return;
  const double mean = sum / length;
  statistics.max[row] = max;
  statistics.weight[row] = weight;
  double lse = keys_lse;
  if (rows.sink != nullptr) {
    const double sink = rows.sink[row];
    lse = lse_with_sink(keys_lse, sink);
    out.sink_mass[cell] = static_cast<float>(exp(sink - lse));
  }
  out.lse[cell] = static_cast<float>(lse);
  out.top1_top2_gap[cell] = length < 2 ? not_defined() : max - second;
  out.score_std[cell] = static_cast<float>(sqrt(fmax(0.0, squares / length - mean * mean)));
  out.entropy[cell] = static_cast<float>(log(weight) + weighted_gap / weight);
  if (out.span_mass != nullptr) out.span_mass[cell] = span_tokens > 0 ? static_cast<float>(on_spans) : not_defined();
}

}  // namespace

void cuda_score_statistics(const CudaExactRows& exact, const CudaCells& cells) {
  const CudaChunk& chunk = *exact.chunk;
  const StageClock::Stage stage(*exact.clock, "score statistics", chunk.stream, 4 * row_tokens(chunk));
  const StatisticsArrays out{.lse = cells.of("lse"),
                             .top1_top2_gap = cells.of("top1_top2_gap"),
                             .score_std = cells.of("score_std"),
                             .entropy = cells.of("entropy"),
                             .span_mass = cells.of("span_mass"),
                             .sink_mass = cells.of("sink_mass")};
  score_statistics_kernel<<<chunk.rows.num_rows, kStatisticsThreads, 0, chunk.stream>>>(
      chunk.rows, chunk.exact, exact.spans, exact.statistics, out);
  ATTEST_CUDA_LAUNCHED(score_statistics_kernel);
}

}  // namespace attest
