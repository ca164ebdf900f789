// FFD decode: attention of one new token of every sequence over a quantised cache, selector and computer in one launch.
// Source: Faster Than Flash, "Kernel Optimization" and Algorithm 1; the rules are those of selectors/ffd.cpp with
// residual = fp8, gqa = union.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/decode/ffd_cache_cuda.h"

namespace attest {

/// The reference of delta (selectors/ffd.cpp). `exact` looks at one sink and one local block.
enum class FfdReference : std::uint8_t { thumbnail, exact, global };
enum class FfdDecodeRule : std::uint8_t { topdelta, topk };
/// `fused`: one launch. `split`: scan, selection, refinement and merge are launches of their own (the paper's
/// ablation).
enum class FfdLaunches : std::uint8_t { fused, split };

struct FfdDecodeOptions {
  float scale = 1;  ///< of the softmax
  FfdDecodeRule rule = FfdDecodeRule::topdelta;
  FfdReference pseudo_max = FfdReference::thumbnail;
  int sink_blocks = 1, local_blocks = 1;  ///< at most 4 each
  int sub_block = kFfdBlock;              ///< 16, 32, 64 or 128 tokens
  int keep_sub_blocks =
      1;  ///< of topk, per (sequence, KV head); the group's maximum is ranked, ties to the lower index
  FfdLaunches launches = FfdLaunches::fused;
};

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
