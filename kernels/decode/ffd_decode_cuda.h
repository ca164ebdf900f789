// FFD decode: attention of one new token of every sequence over a quantised cache, selector and computer in one launch.
// Source: Faster Than Flash, "Kernel Optimization" and Algorithm 1; the rules are those of selectors/ffd.cpp with
// residual = fp8, gqa = union.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/decode/ffd_cache_cuda.h"

namespace attest {

/// Device pointers of one call.
struct FfdDecodeCall {
  const void* q = nullptr;       ///< [batch, Hq, D]
  const float* delta = nullptr;  ///< [Hkv] natural-log units; infinity keeps all blocks. Of topdelta.
  const float* sinks = nullptr;  ///< [Hq] logits of learned sinks, or null
  void* out = nullptr;           ///< [batch, Hq, Dv]
  float* lse = nullptr;          ///< [batch, Hq] log-sum-exp over what was kept, tail and sink included
  int* kept = nullptr;           ///< [batch, Hkv] sub-blocks kept, the tail not counted
};

/// Enqueues on `stream`. Neither allocates nor waits for the device; safe to capture in a CUDA graph, and bitwise
/// repeatable. Throws InputError on options that the cache's layout does not support.
void cuda_ffd_decode(const FfdCache& cache, const FfdDecodeOptions& options, const FfdDecodeCall& call,
                     cudaStream_t stream);

/// The scan alone. maxima [pairs, max_blocks * 128 / sub_block]: largest s^ of each sub-block over its tokens and the
/// group's heads. scores, if not null, [pairs, max_blocks * 128, G]: s^ of every token of a full block.
struct FfdScanCall {
  const void* q = nullptr;
  float* maxima = nullptr;
  float* scores = nullptr;
};
void cuda_ffd_scan(const FfdCache& cache, const FfdDecodeOptions& options, const FfdScanCall& call,
                   cudaStream_t stream);

}  // namespace attest
