// A cache in row-major order:
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

#include "kernels/decode/base/ffd_codes.cuh"
#include "kernels/decode/reference/ffd_reference_cuda.h"

namespace attest::ffd_reference {

struct RowMajorCache {
  FfdCacheShape shape;
  FfdCacheView view;
  std::int64_t max_blocks;
  int code_bytes;  ///< of a token

  RowMajorCache(const FfdCacheShape& of, const FfdCacheView& at)
      : shape(of), view(at), max_blocks(of.max_blocks()), code_bytes((of.head_dim * of.bits + 7) / 8) {}

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

  /// A query, key or value in float32.
  __device__ float element(std::uint16_t bits) const {
    return shape.element_type == ElementType::bfloat16 ? __uint_as_float(std::uint32_t{bits} << 16)
                                                       : __half2float(__ushort_as_half(bits));
  }
  /// z of the codebook {0 .. 2^bits - 1} - z.
  __device__ float offset() const { return static_cast<float>((1 << shape.bits) - 1) / 2; }
  __device__ float step(float amax) const { return ffd_step(amax, offset()); }
};

/// A call, and its scratch memory.
struct Decode {
  RowMajorCache cache;
  FfdDecodeOptions options{};
  FfdDecodeCall call{};
  int splits = 1;                 ///< thread blocks that share a pair
  float* scores = nullptr;        ///< [pairs, max_blocks * 128, G] s^
  float* head_maxima = nullptr;   ///< [pairs, sub-blocks, G] largest s^
  float* maxima = nullptr;        ///< [pairs, sub-blocks] over the group's heads
  std::uint8_t* flags = nullptr;  ///< [pairs, sub-blocks] 1: kept
  // Of a split's kept sub-blocks; the tail belongs to the split of the block that it begins.
  float* split_max = nullptr;  ///< [pairs, splits, G] largest score
  float* split_sum = nullptr;  ///< [pairs, splits, G] sum of exp(s - max); 0: nothing was kept
  float* split_out = nullptr;  ///< [pairs, splits, G, Dv] sum of exp(s - max) v

  __device__ float query(int pair, int h, int d) const {
    const FfdCacheShape& s = cache.shape;
    const auto* q = static_cast<const std::uint16_t*>(call.q);
    return cache.element(q[(static_cast<std::int64_t>(pair) * s.group + h) * s.head_dim + d]);
  }
  __device__ int per_block() const { return kFfdBlock / options.sub_block; }
  __device__ std::int64_t first_part(int pair) const { return cache.block(pair, 0) * per_block(); }
  __device__ int parts(int pair) const { return cache.length(pair) / kFfdBlock * per_block(); }
};

__device__ inline float lowest() { return -__int_as_float(0x7F800000); }

}  // namespace attest::ffd_reference
