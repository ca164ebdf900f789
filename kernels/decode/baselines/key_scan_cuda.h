// Exact scores of one query per sequence from 16-bit keys, with the maxima of their sub-blocks: the 16-bit scan that
// FFD's scan of thumbnails is compared with.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/decode/baselines/exact_cache_cuda.h"

namespace attest {

/// Device pointers; results that are null are left out. Scores s = scale q.k. Maxima are those of sub-blocks of full
/// blocks; what belongs to no token or sub-block of a sequence stays unwritten.
struct KeyScanCall {
  const void* q = nullptr;       ///< [batch, Hq, D]
  float* scores = nullptr;       ///< [pairs, max_tokens, G]
  float* maxima = nullptr;       ///< [pairs, max_sub_blocks] over the tokens of a sub-block and the heads of the group
  float* head_maxima = nullptr;  ///< [pairs, max_sub_blocks, G] over the tokens of a sub-block
};

/// Enqueues on `stream`; neither allocates nor waits for the device. Bitwise repeatable. `sub_block`: 16, 32, 64 or 128
/// tokens.
void cuda_key_scan(const ExactCache& cache, int sub_block, const KeyScanCall& call, cudaStream_t stream);

}  // namespace attest
