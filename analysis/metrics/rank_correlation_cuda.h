// Ranks of the exact scores of a chunk, with which the ranks of every selector's estimate are correlated.
#pragma once

#include "analysis/metrics/block_ranks_cuda.h"
#include "kernels/device/row_views.h"
#include "kernels/selectors/cuda_chunk.h"

namespace attest {

/// Centred ranks of the exact scores among some tokens, and of their maxima over blocks. Pointers into the chunk's
/// arena.
struct CudaExactRanks {
  RowOrder order;
  DeviceMatrix<const int> tokens;
  CudaBlockRanks blocks;
};

/// Among all visible tokens.
CudaExactRanks cuda_exact_ranks(const CudaChunk& chunk);

}  // namespace attest
