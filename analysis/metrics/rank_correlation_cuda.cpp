// Rank correlation over tokens and over block maxima, on the device.
#include "analysis/metrics/rank_correlation_cuda.h"

#include "analysis/metrics/rank_correlation.h"
#include "analysis/metrics/rows_cuda.h"
#include "kernels/rank/rank_correlation_cuda.h"

namespace attest {
namespace {

/// Ranks among tokens 0 .. covered-1 of each row, derived from the order of all visible tokens.
CudaExactRanks ranks_of_covered(const CudaChunk& chunk, const RowCounts& covered) {
  const DeviceMatrix<int> tokens = chunk.by_tokens(chunk.take_rows<int>());
  CudaExactRanks ranks;
  ranks.tokens = tokens;
  ranks.order = cuda_order_below(*chunk.exact_order, chunk.visible_values(chunk.exact), covered.device, *chunk.arena,
                                 chunk.stream);
  cuda_centred_ranks(chunk.values(chunk.exact, covered), ranks.order, tokens, chunk.stream);
  ranks.blocks = CudaBlockRanks(chunk, covered);
  return ranks;
}

}  // namespace

CudaExactRanks cuda_exact_ranks(const CudaChunk& chunk) {
  const DeviceMatrix<int> tokens = chunk.by_tokens(chunk.take_rows<int>());
  const RowValues exact = chunk.visible_values(chunk.exact);
  CudaExactRanks ranks;
  ranks.tokens = tokens;
  ranks.order = cuda_sort_and_rank(exact, tokens, *chunk.arena, chunk.stream);
  ranks.blocks = CudaBlockRanks(chunk, RowCounts(chunk, [](std::int64_t visible) { return visible; }));
  return ranks;
}

void cuda_rank_correlation(const CudaSelectorRows& selector, const CudaCells& cells) {
  const CudaChunk& chunk = selector.chunk();
  const CudaSelection& selection = *selector.selection;
  const DeviceArena::Scope scope(*chunk.arena);
  const StageClock::Stage stage(*selector.exact->clock, "ranking", chunk.stream, 8 * row_tokens(chunk));
  const CudaExactRanks ranks =
      selection.covers_all ? *selector.exact->ranks : ranks_of_covered(chunk, selection.covered);
  EntryEstimate estimate{.entries = selection.entries,
                         .order = selection.entry_order,
                         .width = selection.entry_width,
                         .items = selection.covered.device};
  if (selection.entry_width == 1) estimate.entries = chunk.values(selection.estimate, selection.covered);
  if (selection.estimate == chunk.exact) estimate.order = ranks.order;
  cuda_spearman(estimate, ranks.tokens, {cells.of("spearman"), chunk.rows.cell}, *chunk.arena, chunk.stream);
  ranks.blocks.correlate(chunk, selection.estimate, selection.estimate_low, cells.of("spearman_block16"),
                         cells.of("spearman_block128"));
}

}  // namespace attest
