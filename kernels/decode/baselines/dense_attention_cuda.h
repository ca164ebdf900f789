// Exact attention of one query per sequence over all keys and values, which are read once. Unlike the other kernels
// here it does not round the weights to 16 bits: the reference of a decode step.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/decode/baselines/exact_cache_cuda.h"

namespace attest {

/// Device pointers, but for `refused`.
struct DenseAttentionCall {
  const void* q = nullptr;         ///< [batch, Hq, D]
  const float* sinks = nullptr;    ///< [Hq] logits of learned sinks, or null
  float largest_score = 0;         ///< expected of the magnitudes of scores, sinks aside
  void* out = nullptr;             ///< [batch, Hq, D]
  float* lse = nullptr;            ///< [batch, Hq] log-sum-exp, sink included
  std::int64_t* tokens = nullptr;  ///< [pairs] tokens attended; or null
  /// Becomes 1 if a score is NaN or beyond largest_score, or an output is not finite, and else stays as it is: device
  /// memory, or page-locked memory of the host.
  int* refused = nullptr;
  std::byte* scratch = nullptr;  ///< dense_attention_scratch() bytes, aligned to 256
};

std::size_t dense_attention_scratch(const ExactCache& cache);

/// Enqueues two launches on `stream`: attention, merge. Neither allocates nor waits for the device. Bitwise repeatable.
/// Scores and sums are float32 sums of tensor cores.
void cuda_dense_attention(const ExactCache& cache, const DenseAttentionCall& call, cudaStream_t stream);

}  // namespace attest
