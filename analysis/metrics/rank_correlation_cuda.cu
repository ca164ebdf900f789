// Rank correlation of tokens and of block maxima.
#include "analysis/metrics/rank_correlation.h"
#include "analysis/metrics/rank_correlation_cuda.h"
#include "analysis/metrics/rows_cuda.h"
#include "kernels/rank/rank_correlation_cuda.h"

namespace attest {
namespace {

/// Among tokens 0 .. covered-1 of each row, from the order of all.
CudaExactRanks rank_covered(const CudaChunk& chunk, const RowCounts& covered) {
  const DeviceRows& rows = chunk.rows;
  const RowValues all{chunk.exact, rows.stride, rows.visible, rows.num_rows, rows.max_length};
  int* tokens = chunk.take_rows<int>();
  CudaExactRanks ranks;
  ranks.tokens = tokens;
  ranks.order = order_below(*chunk.exact_order, all, covered.device, *chunk.arena, chunk.stream);
  centred_ranks({chunk.exact, rows.stride, covered.device, rows.num_rows, covered.max}, ranks.order, tokens,
                chunk.stream);
  ranks.blocks = CudaBlockRanks(chunk, covered);
  return ranks;
}

}  // namespace

CudaExactRanks rank_exact_scores(const CudaChunk& chunk) {
  const DeviceRows& rows = chunk.rows;
  int* tokens = chunk.take_rows<int>();
  CudaExactRanks ranks;
  ranks.tokens = tokens;
  ranks.order = rank_rows({chunk.exact, rows.stride, rows.visible, rows.num_rows, rows.max_length}, tokens,
                          *chunk.arena, chunk.stream);
  ranks.blocks = CudaBlockRanks(chunk, RowCounts(chunk, [](std::int64_t visible) { return visible; }));
  return ranks;
}

void cuda_rank_correlation(const CudaSelectorRows& selector, const CudaCells& cells) {
  const CudaChunk& chunk = selector.chunk();
  const CudaSelection& selection = *selector.selection;
  const DeviceRows& rows = chunk.rows;
  const DeviceArena::Scope scope(*chunk.arena);
  const StageClock::Stage stage(*selector.exact->clock, "ranking", chunk.stream, 8 * row_tokens(chunk));
  const CudaExactRanks ranks = selection.covers_all ? *selector.exact->ranks : rank_covered(chunk, selection.covered);
  float* rho = cells.of("spearman");
  EntryEstimate estimate{.entries = selection.entries,
                         .order = selection.entry_order,
                         .width = selection.entry_width,
                         .items = selection.covered.device};
  if (selection.entry_width == 1)
    estimate.entries = {selection.estimate, rows.stride, selection.covered.device, rows.num_rows,
                        selection.covered.max};
  if (selection.estimate == chunk.exact) estimate.order = ranks.order;
  if (estimate.order.items == nullptr && selection.entry_width == 1) {
    spearman_of_values(estimate.entries, ranks.tokens, rows.stride, rho, rows.cell, *chunk.arena, chunk.stream);
  } else {
    if (estimate.order.items == nullptr) estimate.order = sort_rows(estimate.entries, *chunk.arena, chunk.stream);
    spearman_rows(estimate, ranks.tokens, rows.stride, rho, rows.cell, chunk.stream);
  }
  ranks.blocks.correlate(chunk, selection.estimate, selection.estimate_low, cells.of("spearman_block16"),
                         cells.of("spearman_block128"));
}

}  // namespace attest
