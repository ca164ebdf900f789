// spearman_block16 and spearman_block128 on the device: rank correlation of the block maxima of scores and estimates.
#pragma once

#include "kernels/selectors/cuda_chunk.h"

namespace attest {

/// Ranks of the exact scores' maxima over blocks of 16 and of 128 tokens. The memory belongs to the chunk's arena.
class CudaBlockRanks {
 public:
  CudaBlockRanks() = default;
  /// Ranks the blocks of tokens 0 .. covered-1 of every row. A partial last block is ignored.
  CudaBlockRanks(const CudaChunk& chunk, const RowCounts& covered);

  /// rho16, rho128: [N, Hq]. `low` as CudaSelection::estimate_low.
  void correlate(const CudaChunk& chunk, const float* estimate, const float* low, float* rho16, float* rho128) const;

 private:
  RowCounts covered_, counts16_, counts128_;
  DeviceMatrix<int> ranks16_, ranks128_;
};

}  // namespace attest
