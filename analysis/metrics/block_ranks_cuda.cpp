// Rank correlation of block maxima on the device. Long rows: block maxima in float32, ranked by sorting. Short rows,
// which also have a low part of each score (low_scores.cuh): block maxima in double, ranked by comparing every pair.
#include "analysis/metrics/block_ranks_cuda.h"

#include "kernels/rank/rank_correlation_cuda.h"
#include "kernels/rank/segments_cuda.h"
#include "kernels/rank/short_rank_correlation_cuda.h"

namespace attest {
namespace {

constexpr int kSmall = 16, kLarge = 128;

struct FloatMaxima {
  RaggedRows<float> of16, of128;
};

FloatMaxima float_maxima(const CudaChunk& chunk, const RowValues& scores, const RowCounts& counts16,
                         const RowCounts& counts128) {
  const FloatMaxima maxima{chunk.take_ragged<float>(counts16), chunk.take_ragged<float>(counts128)};
  cuda_segment_maxima(scores, kSmall, maxima.of16, chunk.stream);
  cuda_segment_maxima(maxima.of16, kLarge / kSmall, maxima.of128, chunk.stream);
  return maxima;
}

void rank_long_rows(const CudaChunk& chunk, const RowValues& maxima, const DeviceMatrix<int>& ranks) {
  const DeviceArena::Scope scope(*chunk.arena);
  cuda_sort_and_rank(maxima, ranks, *chunk.arena, chunk.stream);
}

void correlate_many(const CudaChunk& chunk, const RowValues& maxima, const DeviceMatrix<const int>& exact_ranks,
                    float* rho) {
  const DeviceArena::Scope scope(*chunk.arena);
  cuda_spearman({.entries = maxima}, exact_ranks, {rho, chunk.rows.cell}, *chunk.arena, chunk.stream);
}

void rank_short_rows(const CudaChunk& chunk, const RowValues& scores, const DeviceMatrix<const float>& low, int width,
                     const RowCounts& counts, const DeviceMatrix<int>& ranks) {
  const DeviceArena::Scope scope(*chunk.arena);
  const RaggedRows<double> maxima = chunk.take_ragged<double>(counts);
  cuda_segment_maxima(scores, low, width, maxima, chunk.stream);
  cuda_short_centred_ranks(maxima, ranks, chunk.stream);
}

}  // namespace

CudaBlockRanks::CudaBlockRanks(const CudaChunk& chunk, const RowCounts& covered)
    : covered_(covered),
      counts16_(chunk, covered, [](std::int64_t tokens) { return tokens / kSmall; }),
      counts128_(chunk, covered, [](std::int64_t tokens) { return tokens / kLarge; }),
      ranks16_(chunk.take_ragged<int>(counts16_).items),
      ranks128_(chunk.take_ragged<int>(counts128_).items) {
  const RowValues scores = chunk.values(chunk.exact, covered_);
  if (chunk.exact_low != nullptr) {
    const DeviceMatrix<const float> low = chunk.by_tokens(chunk.exact_low);
    rank_short_rows(chunk, scores, low, kSmall, counts16_, ranks16_);
    rank_short_rows(chunk, scores, low, kLarge, counts128_, ranks128_);
    return;
  }
  const DeviceArena::Scope scope(*chunk.arena);
  const FloatMaxima maxima = float_maxima(chunk, scores, counts16_, counts128_);
  rank_long_rows(chunk, maxima.of16, ranks16_);
  rank_long_rows(chunk, maxima.of128, ranks128_);
}

void CudaBlockRanks::correlate(const CudaChunk& chunk, const float* estimate, const float* low, float* rho16,
                               float* rho128) const {
  const DeviceArena::Scope scope(*chunk.arena);
  const RowValues scores = chunk.values(estimate, covered_);
  if (chunk.exact_low != nullptr) {
    const auto correlate_short_rows = [&](int width, const RowCounts& counts, const DeviceMatrix<int>& exact_ranks,
                                          float* rho) {
      const RaggedRows<int> ranks = chunk.take_ragged<int>(counts);
      rank_short_rows(chunk, scores, chunk.by_tokens(low), width, counts, ranks.items);
      cuda_short_spearman(ranks, exact_ranks, {rho, chunk.rows.cell}, chunk.stream);
    };
    correlate_short_rows(kSmall, counts16_, ranks16_, rho16);
    correlate_short_rows(kLarge, counts128_, ranks128_, rho128);
    return;
  }
  const FloatMaxima maxima = float_maxima(chunk, scores, counts16_, counts128_);
  correlate_many(chunk, maxima.of16, ranks16_, rho16);
  correlate_many(chunk, maxima.of128, ranks128_, rho128);
}

}  // namespace attest
