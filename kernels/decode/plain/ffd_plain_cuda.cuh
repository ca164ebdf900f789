// Layout of a plain FFD cache, and what its kernels share.
//   record     float32 amax[D], the largest magnitude of each channel of the block; then the codes of 128 tokens, each
//              token's in ceil(D * bits / 8) bytes: channel d is bits [d * bits, d * bits + bits) of them, counted from
//              the lowest of the first byte
//   residual   e4m3 of k - k^, [128][D]
//   values, tail_values, last_keys, sink_keys   row-major in the element type
// last_keys[pair][p][t] is the newest key that is token t of a block b with b % 2 = p; tail_values[pair][t] is the
// newest value that is token t of a block. sink_keys grows with block 0.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstdint>

#include "kernels/decode/plain/ffd_plain_cuda.h"
#include "kernels/device/octet.cuh"

namespace attest::ffd_plain {

inline constexpr int kLeastSubBlock = 16;  // tokens

struct PlainCache {
  FfdCacheShape shape;
  FfdCacheView view;
  std::int64_t max_blocks;
  int code_bytes;  ///< of a token

  __device__ int length(int pair) const { return view.lengths[pair / shape.num_kv_heads]; }
  __device__ std::int64_t block(int pair, int b) const { return pair * max_blocks + b; }

  __device__ float* amax(int pair, int b) const {
    const std::int64_t record = 4 * shape.head_dim + std::int64_t{kFfdBlock} * code_bytes;
    return reinterpret_cast<float*>(view.records + block(pair, b) * record);
  }
  /// [128, code_bytes]
  __device__ std::uint8_t* codes(int pair, int b) const {
    return reinterpret_cast<std::uint8_t*>(amax(pair, b) + shape.head_dim);
  }
  /// [128, D]
  __device__ std::uint8_t* residual(int pair, int b) const {
    return view.residual + block(pair, b) * kFfdBlock * shape.head_dim;
  }
  /// [128, Dv]
  __device__ std::uint16_t* values(int pair, int b) const {
    return static_cast<std::uint16_t*>(view.values) + block(pair, b) * kFfdBlock * shape.value_dim;
  }
  /// [128, D]
  __device__ std::uint16_t* last_keys(int pair, int b) const {
    const std::int64_t place = 2 * static_cast<std::int64_t>(pair) + b % 2;
    return static_cast<std::uint16_t*>(view.last_keys) + place * kFfdBlock * shape.head_dim;
  }
  /// [128, D]
  __device__ std::uint16_t* sink_keys(int pair) const {
    return static_cast<std::uint16_t*>(view.sink_keys) + static_cast<std::int64_t>(pair) * kFfdBlock * shape.head_dim;
  }
  /// [128, Dv]
  __device__ std::uint16_t* tail_values(int pair) const {
    return static_cast<std::uint16_t*>(view.tail_values) +
           static_cast<std::int64_t>(pair) * kFfdBlock * shape.value_dim;
  }
};

inline PlainCache plain_cache(const FfdCacheShape& shape, const FfdCacheView& view) {
  return {shape, view, shape.max_blocks(), (shape.head_dim * shape.bits + 7) / 8};
}

__device__ inline float element(ElementType type, std::uint16_t bits) {
  return type == ElementType::bfloat16 ? __uint_as_float(std::uint32_t{bits} << 16)
                                       : __half2float(__ushort_as_half(bits));
}

/// z of the codebook {0 .. 2^bits - 1} - z.
__device__ inline float offset_of(int bits) { return static_cast<float>((1 << bits) - 1) / 2; }
__device__ inline float step_of(float amax, int bits) { return fmaxf(__fdiv_rn(amax, offset_of(bits)), 1e-8f); }

/// Channels in whole octets.
__host__ __device__ inline int padded(int dim) { return (dim + kOctet - 1) / kOctet * kOctet; }

/// Writes the group's queries to shared memory, [padded D, kHeads] in float32, zero where there is none. The caller
/// synchronises.
template <int kHeads>
__device__ void stage_queries(const PlainCache& cache, const void* q, int pair, float* staged) {
  const int dim = cache.shape.head_dim, group = cache.shape.group;
  const auto* own = static_cast<const std::uint16_t*>(q) + static_cast<std::int64_t>(pair) * group * dim;
  for (int i = threadIdx.x; i < padded(dim) * kHeads; i += blockDim.x) {
    const int d = i / kHeads, h = i % kHeads;
    staged[i] = d < dim && h < group ? element(cache.shape.element_type, own[h * dim + d]) : 0.0f;
  }
}

/// sum[h] += query h times a key. load(channel, valid, x) gives the eight channels from `channel` on, of which `valid`
/// exist; the others are finite.
template <int kHeads, class Load>
__device__ void add_products(const float* queries, int dim, Load&& load, float (&sum)[kHeads]) {
  for (int channel = 0; channel < dim; channel += kOctet) {
    float key[kOctet];
    load(channel, min(kOctet, dim - channel), key);
#pragma unroll
    for (int i = 0; i < kOctet; ++i)
#pragma unroll
      for (int h = 0; h < kHeads; ++h) sum[h] = fmaf(queries[(channel + i) * kHeads + h], key[i], sum[h]);
  }
}

/// Calls launch.operator()<kHeads>() with the least of 1, 2, 4, 8, 16 that holds the group.
template <class Launch>
void with_heads(int group, Launch&& launch) {
  if (group <= 1) return launch.template operator()<1>();
  if (group <= 2) return launch.template operator()<2>();
  if (group <= 4) return launch.template operator()<4>();
  if (group <= 8) return launch.template operator()<8>();
  static_assert(kFfdMostGroup == 16);
  return launch.template operator()<16>();
}

/// Scores of the full blocks. Outputs may be null.
struct PlainScan {
  PlainCache cache;
  const void* q;
  float scale;
  int sub_block;
  float* scores;        ///< [pairs, max_blocks * 128, G] s^
  float* head_maxima;   ///< [pairs, sub-blocks, G] largest s^
  float* group_maxima;  ///< [pairs, sub-blocks]
  int splits;           ///< thread blocks of a pair
};
void launch_plain_scan(const PlainScan& task, cudaStream_t stream);

/// Which sub-blocks are kept.
struct PlainSelect {
  PlainCache cache;
  FfdDecodeOptions options;
  const void* q;
  const float* delta;         ///< [Hkv]
  const float* head_maxima;   ///< of PlainScan; for topdelta
  const float* group_maxima;  ///< for topk
  std::uint8_t* flags;        ///< [pairs, sub-blocks] 1: kept
  int* kept;                  ///< [pairs], or null
};
void launch_plain_select(const PlainSelect& task, cudaStream_t stream);

/// Attention over a split's kept sub-blocks. Block b of a pair belongs to split b % splits, and so does the tail.
struct PlainPartials {
  float *max, *sum;  ///< [pairs, splits, G] largest score and sum of exp(s - max); sum 0: the split kept nothing
  float* out;        ///< [pairs, splits, G, Dv] sum of exp(s - max) v, undefined where sum is 0
};
struct PlainRefine {
  PlainCache cache;
  const void* q;
  float scale;
  int sub_block;
  const float* scores;        ///< of PlainScan
  const std::uint8_t* flags;  ///< of PlainSelect
  PlainPartials partials;
  int splits;
};
void launch_plain_refine(const PlainRefine& task, cudaStream_t stream);

}  // namespace attest::ffd_plain
