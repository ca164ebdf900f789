// Ranks of the exact scores of a chunk. Every selector's estimate is correlated with them.
#pragma once

#include "analysis/metrics/block_ranks_cuda.h"
#include "kernels/device/row_views.h"
#include "kernels/selectors/cuda_chunk.h"

namespace attest {

/// Centred ranks of the exact scores of some tokens and of their block maxima. The memory belongs to the chunk's arena.
struct CudaExactRanks {
  RowOrder order;
  DeviceMatrix<const int> tokens;
  CudaBlockRanks blocks;
};

/// Ranks among all visible tokens.
CudaExactRanks cuda_exact_ranks(const CudaChunk& chunk);

}  // namespace attest
