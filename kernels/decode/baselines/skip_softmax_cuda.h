// Attention of one query per sequence that scores all keys, but skips the softmax and the values of tiles far below the
// running maximum: the rule of selectors/skip_softmax.cpp with gqa = union, as engines ship it (BLASST).
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "kernels/decode/baselines/exact_cache_cuda.h"

namespace attest {

inline constexpr int kSkipTile = 128;  ///< tokens of a tile

/// Device pointers.
struct SkipSoftmaxCall {
  const void* q = nullptr;       ///< [batch, Hq, D]
  const float* delta = nullptr;  ///< [Hkv] natural-log units; infinity skips nothing
  const float* sinks = nullptr;  ///< [Hq] logits of learned sinks, or null
  void* out = nullptr;           ///< [batch, Hq, D]
  float* lse = nullptr;          ///< [batch, Hq] log-sum-exp of what was not skipped, sink included
  int* kept = nullptr;           ///< [pairs] tiles, the last one included, that were not skipped
  std::byte* scratch = nullptr;  ///< skip_softmax_scratch() bytes, aligned to 256
};

/// Thread blocks per pair with which every multiprocessor has work: a sub-sequence each.
int skip_softmax_splits(const ExactCache& cache);
std::size_t skip_softmax_scratch(const ExactCache& cache, int splits);

/// Enqueues attention and merge on `stream`. Tile c belongs to sub-sequence c mod min(tiles, splits). Neither allocates
/// nor waits for the device. Bitwise repeatable.
void cuda_skip_softmax(const ExactCache& cache, int splits, const SkipSoftmaxCall& call, cudaStream_t stream);

}  // namespace attest
