// A plain 16-bit KV cache of one layer: what the kernels that FFD's decode is compared with read.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>

#include "dumps/element_type.h"
#include "kernels/decode/base/ffd_shape.h"

namespace attest {

/// Tokens of a block, as many as of FFD's, so that all methods choose among the same sub-blocks. Only full ones are
/// selected, the rest is the tail.
inline constexpr int kExactBlock = kFfdBlock;
inline constexpr int kExactMaxGroup = 16;     ///< query heads per KV head
inline constexpr int kExactMaxPairs = 65535;  ///< a grid's second dimension
inline constexpr std::int64_t kExactMaxTokens = std::int64_t{1} << 24;

/// Shape and device pointers. A pair is (sequence, KV head); its index is sequence * num_kv_heads + KV head.
struct ExactCache {
  int batch = 1;  ///< sequences
  int num_kv_heads = 1;
  int group = 1;                ///< G, query heads per KV head, at most kExactMaxGroup
  int head_dim = 128;           ///< D of keys and of values: 64 or 128
  std::int64_t max_tokens = 0;  ///< of a sequence; lays out results of one value per token or sub-block
  std::int64_t stride = 0;      ///< tokens from one pair to the next, at least max_tokens
  ElementType element_type = ElementType::float16;  ///< of queries, keys, values and outputs: float16 or bfloat16
  float scale = 1;                                  ///< of the softmax
  const void* keys = nullptr;                       ///< [batch, Hkv, stride, D]
  const void* values = nullptr;                     ///< [batch, Hkv, stride, D]
  const int* lengths = nullptr;  ///< [batch] tokens of each, at most max_tokens; null: all max_tokens

  __host__ __device__ int pairs() const { return batch * num_kv_heads; }
  __host__ __device__ int max_blocks() const { return static_cast<int>(max_tokens / kExactBlock); }
  /// Sub-blocks of the full blocks of a sequence of max_tokens tokens: the row length of maxima and masks.
  __host__ __device__ int max_sub_blocks(int sub_block) const { return max_blocks() * (kExactBlock / sub_block); }
#ifdef __CUDACC__
  __device__ int length_of(int pair) const {
    return lengths == nullptr ? static_cast<int>(max_tokens) : lengths[pair / num_kv_heads];
  }
  __device__ const std::uint16_t* keys_of(int pair) const {
    return static_cast<const std::uint16_t*>(keys) + pair * stride * head_dim;
  }
  __device__ const std::uint16_t* values_of(int pair) const {
    return static_cast<const std::uint16_t*>(values) + pair * stride * head_dim;
  }
  /// The queries of a pair's group, of q [batch, Hq, D].
  __device__ const std::uint16_t* queries_of(int pair, const void* q) const {
    return static_cast<const std::uint16_t*>(q) + static_cast<std::int64_t>(pair) * group * head_dim;
  }
#endif
};

/// What of the cache the kernels do not support, or of sub-blocks of `sub_block` tokens (16, 32, 64 or 128 are):
/// "expected ..., found ...". Empty: nothing.
std::string fault_of_exact_cache(const ExactCache& cache, int sub_block = kExactBlock);

/// Throws InputError if there is a fault.
void check_exact_cache(const ExactCache& cache, int sub_block = kExactBlock);

}  // namespace attest
