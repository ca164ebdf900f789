// Attention of one query per sequence over chosen sub-blocks of 16-bit keys and values, and over the tail: the computer
// of a selection whose steps are launches of their own.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/decode/baselines/exact_cache_cuda.h"

namespace attest {

/// Device pointers. The tail, the tokens after the last full block, is always attended.
struct ListedAttentionCall {
  const void* q = nullptr;             ///< [batch, Hq, D]
  const std::uint8_t* mask = nullptr;  ///< [pairs, max_sub_blocks] nonzero: attended
  const float* sinks = nullptr;        ///< [Hq] logits of learned sinks, or null
  void* out = nullptr;                 ///< [batch, Hq, D]; 0 where nothing is attended
  float* lse = nullptr;                ///< [batch, Hq] log-sum-exp, sink included
  std::byte* scratch = nullptr;        ///< listed_attention_scratch() bytes, aligned to 256
};

std::size_t listed_attention_scratch(const ExactCache& cache, int sub_block);

/// Enqueues three launches on `stream`: lists of the sub-blocks, attention, merge. Neither allocates nor waits for the
/// device. Bitwise repeatable.
void cuda_listed_attention(const ExactCache& cache, int sub_block, const ListedAttentionCall& call,
                           cudaStream_t stream);

}  // namespace attest
