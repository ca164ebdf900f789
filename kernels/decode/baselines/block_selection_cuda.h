// Which sub-blocks of a sequence are attended, from their exact scores: the selections that FFD's threshold on
// thumbnails is compared with. Only sub-blocks of full blocks are selected; the tail is always attended.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/decode/baselines/exact_cache_cuda.h"

namespace attest {

/// What a selection writes. Device pointers.
struct BlockSelection {
  std::uint8_t* mask = nullptr;  ///< [pairs, max_sub_blocks] 1: kept; 0 also beyond the sequence's sub-blocks
  int* counts = nullptr;         ///< [pairs] kept sub-blocks
};

/// The functions enqueue on `stream` and neither allocate nor wait for the device. Bitwise repeatable. `sub_block`: 16,
/// 32, 64 or 128 tokens.

/// The `keep` largest of maxima [pairs, max_sub_blocks], ties to the lower index. One launch, a radix select.
void cuda_select_top_k(const ExactCache& cache, int sub_block, const float* maxima, int keep,
                       const BlockSelection& selection, cudaStream_t stream);

struct TopDeltaRule {
  const float* delta = nullptr;           ///< [Hkv] on the device, natural-log units; infinity keeps everything
  int sink_blocks = 1, local_blocks = 1;  ///< at least 0; without any, all is kept
};
/// Sub-blocks with a head whose maximum, of head_maxima [pairs, max_sub_blocks, G], is at least m - delta; m is the
/// head's largest over the first sink_blocks and the last local_blocks full blocks. One launch.
void cuda_select_top_delta(const ExactCache& cache, int sub_block, const float* head_maxima, const TopDeltaRule& rule,
                           const BlockSelection& selection, cudaStream_t stream);

/// Top-p: per query head the smallest set of sub-blocks, in descending order of their softmax mass over the tokens of
/// full blocks, ties to the lower index, whose sum reaches p - 1e-6; then the union over the group's heads. scores
/// [pairs, max_tokens, G]. Three launches: masses, a radix select on their sum, the union. `scratch`:
/// top_p_scratch() bytes, aligned to 256.
std::size_t top_p_scratch(const ExactCache& cache, int sub_block);
void cuda_select_top_p(const ExactCache& cache, int sub_block, const float* scores, double p, std::byte* scratch,
                       const BlockSelection& selection, cudaStream_t stream);

}  // namespace attest
