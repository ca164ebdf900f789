// Long rows in float32 through sorts, short ones (score_rest.cuh) in double by comparing every pair.
#include "analysis/metrics/block_ranks_cuda.h"
#include "kernels/rank/entry_levels_cuda.h"
#include "kernels/rank/rank_correlation_cuda.h"
#include "kernels/rank/short_rank_correlation_cuda.h"

namespace attest {
namespace {

constexpr int kSmall = 16, kLarge = 128;

/// What maxima over blocks are taken of.
struct Source {
  const float *scores, *low;
  const RowCounts *covered, *counts16, *counts128;
};

std::size_t elements(const CudaChunk& chunk, const RowCounts& counts) {
  return static_cast<std::size_t>(chunk.rows.num_rows) * static_cast<std::size_t>(counts.max);
}

Segments segments(const CudaChunk& chunk, const Source& source, int width, const RowCounts& counts) {
  return {source.scores,       chunk.rows.stride, source.covered->device, width, counts.device,
          chunk.rows.num_rows, counts.max};
}

struct FloatMaxima {
  RowValues of16, of128;

  FloatMaxima(const CudaChunk& chunk, const Source& source) {
    const RowCounts &small = *source.counts16, &large = *source.counts128;
    float *maxima16 = chunk.take<float>(elements(chunk, small)), *maxima128 = chunk.take<float>(elements(chunk, large));
    segment_maxima(segments(chunk, source, kSmall, small), maxima16, small.max, chunk.stream);
    segment_maxima({maxima16, small.max, small.device, kLarge / kSmall, large.device, chunk.rows.num_rows, large.max},
                   maxima128, large.max, chunk.stream);
    of16 = {maxima16, small.max, small.device, chunk.rows.num_rows, small.max};
    of128 = {maxima128, large.max, large.device, chunk.rows.num_rows, large.max};
  }
};

void rank(const CudaChunk& chunk, const RowValues& maxima, int* ranks) {
  rank_rows(maxima, ranks, *chunk.arena, chunk.stream);
}

void rank_few(const CudaChunk& chunk, const Source& source, int width, const RowCounts& counts, int* ranks) {
  const DeviceArena::Scope scope(*chunk.arena);
  auto* maxima = chunk.take<double>(elements(chunk, counts));
  segment_maxima_in_double(segments(chunk, source, width, counts), source.low, maxima, counts.max, chunk.stream);
  centred_ranks_of_few(maxima, counts.max, counts.device, chunk.rows.num_rows, ranks, chunk.stream);
}

}  // namespace

CudaBlockRanks::CudaBlockRanks(const CudaChunk& chunk, const RowCounts& covered)
    : covered_(covered),
      counts16_(chunk, covered, [](std::int64_t tokens) { return tokens / kSmall; }),
      counts128_(chunk, covered, [](std::int64_t tokens) { return tokens / kLarge; }),
      ranks16_(chunk.take<int>(elements(chunk, counts16_))),
      ranks128_(chunk.take<int>(elements(chunk, counts128_))) {
  const Source source{chunk.exact, chunk.exact_low, &covered_, &counts16_, &counts128_};
  if (chunk.exact_low != nullptr) {
    rank_few(chunk, source, kSmall, counts16_, ranks16_);
    rank_few(chunk, source, kLarge, counts128_, ranks128_);
    return;
  }
  const DeviceArena::Scope scope(*chunk.arena);
  const FloatMaxima maxima(chunk, source);
  rank(chunk, maxima.of16, ranks16_);
  rank(chunk, maxima.of128, ranks128_);
}

void CudaBlockRanks::correlate(const CudaChunk& chunk, const float* estimate, const float* low, float* rho16,
                               float* rho128) const {
  const DeviceArena::Scope scope(*chunk.arena);
  const Source source{estimate, low, &covered_, &counts16_, &counts128_};
  if (chunk.exact_low != nullptr) {
    const auto of_few = [&](int width, const RowCounts& counts, const int* exact_ranks, float* rho) {
      int* ranks = chunk.take<int>(elements(chunk, counts));
      rank_few(chunk, source, width, counts, ranks);
      spearman_of_ranks(ranks, exact_ranks, counts.max, counts.device, chunk.rows.num_rows, rho, chunk.rows.cell,
                        chunk.stream);
    };
    of_few(kSmall, counts16_, ranks16_, rho16);
    of_few(kLarge, counts128_, ranks128_, rho128);
    return;
  }
  const FloatMaxima maxima(chunk, source);
  const auto of_many = [&](const RowValues& values, const int* exact_ranks, float* rho) {
    spearman_of_values(values, exact_ranks, values.stride, rho, chunk.rows.cell, *chunk.arena, chunk.stream);
  };
  of_many(maxima.of16, ranks16_, rho16);
  of_many(maxima.of128, ranks128_, rho128);
}

}  // namespace attest
