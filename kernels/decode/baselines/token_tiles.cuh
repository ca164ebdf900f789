// Sixteen cached tokens of one warp, loaded from global memory straight into the operands of tensor cores.
//
// Queries are the rows of both products (16, of which G are real), so that weights leave the first product in the
// layout in which the second one takes them. The rows that pad G cost no memory traffic, and tensor cores are far from
// busy: 16 heads of 128 channels take a tenth of the time in which the memory delivers their keys and values.
// The order of channels within a dot product is free. A lane therefore takes eight neighbouring channels as its share
// of two steps of 16 channels: every load is 16 bytes, and neither shared memory nor a transposition is needed.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "kernels/decode/baselines/exact_cache_cuda.h"
#include "kernels/device/pack16.cuh"
#include "kernels/device/tensor_core.cuh"

namespace attest {

inline constexpr int kTileHeads = 16;
inline constexpr int kWarpTokens = 16;  ///< tokens of a tile

/// The type of elements as tensor cores and conversions know it.
template <ElementType kType>
using DeviceElement = std::conditional_t<kType == ElementType::float16, __half, __nv_bfloat16>;

/// 16 bytes that are read once. All of a 128-byte line is wanted.
__device__ inline uint4 load_streamed(const void* from) {
  uint4 x;
  asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
               : "l"(from));
  return x;
}

/// Places of a lane: it holds heads row() and row() + 8, tokens token(t, i) of a tile's scores.
__device__ inline int lane_row(int lane) { return lane / 4; }
__device__ inline int lane_quad(int lane) { return lane % 4; }

/// Scores of a tile: s[t][i] is head lane_row + i / 2 * 8 and token t * 8 + 2 lane_quad + i % 2.
using TileScores = float[2][4];
__device__ inline int score_token(int t, int i, int lane) { return t * 8 + 2 * lane_quad(lane) + i % 2; }
__device__ inline int score_head(int i, int lane) { return lane_row(lane) + i / 2 * 8; }

/// Queries of a group. Heads from G on are 0.
template <int kDim>
struct QueryTile {
  static constexpr int kParts = kDim / 32;
  uint4 rows[2][kParts];

  /// q [group, kDim]. kHalves = 1 for at most 8 heads makes the others zeros that the compiler knows of.
  template <int kHalves = 2>
  __device__ void load(const std::uint16_t* q, int group, int lane) {
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int c = 0; c < kParts; ++c) {
        const int head = lane_row(lane) + half * 8;
        rows[half][c] = {0, 0, 0, 0};
        if (half < kHalves && head < group)
          rows[half][c] = __ldg(reinterpret_cast<const uint4*>(q + head * kDim + c * 32 + lane_quad(lane) * 8));
      }
  }
};

template <int kDim>
struct KeyTile {
  static constexpr int kParts = kDim / 32;
  uint4 rows[2][kParts];

  /// Tokens [token, token + 16) of keys [length, kDim]. In place of tokens from `length` on the last one is read.
  __device__ void load(const std::uint16_t* keys, int token, int length, int lane) {
#pragma unroll
    for (int t = 0; t < 2; ++t) {
      const std::uint16_t* row = keys +
                                 static_cast<std::int64_t>(min(token + t * 8 + lane_row(lane), length - 1)) * kDim +
                                 lane_quad(lane) * 8;
#pragma unroll
      for (int c = 0; c < kParts; ++c) rows[t][c] = load_streamed(row + c * 32);
    }
  }
};

/// s = queries times keys, not scaled.
template <ElementType kType, int kDim>
__device__ void multiply_keys(const QueryTile<kDim>& q, const KeyTile<kDim>& k, TileScores& s) {
#pragma unroll
  for (int t = 0; t < 2; ++t) {
#pragma unroll
    for (int i = 0; i < 4; ++i) s[t][i] = 0;
#pragma unroll
    for (int c = 0; c < QueryTile<kDim>::kParts; ++c) {
      const uint4 &low = q.rows[0][c], &high = q.rows[1][c], &key = k.rows[t][c];
      const std::uint32_t first[4] = {low.x, high.x, low.y, high.y}, second[4] = {low.z, high.z, low.w, high.w};
      multiply_add<DeviceElement<kType>>(s[t], first, key.x, key.y);
      multiply_add<DeviceElement<kType>>(s[t], second, key.z, key.w);
    }
  }
}

/// Sums of weighted values: element e of fragment n is head lane_row + e / 2 * 8 and channel
/// output_channel(n, e % 2, lane).
template <int kDim>
using OutputTile = float[kDim / 8][4];
__device__ inline int output_channel(int n, int e, int lane) {
  return n / 8 * 64 + (2 * lane_quad(lane) + e) * 8 + n % 8;
}

/// Element i of eight packed 16-bit ones, and the same element of another eight, as a pair.
__device__ inline std::uint32_t pair_of(const uint4& a, const uint4& b, int i) {
  const std::uint32_t of_a[4] = {a.x, a.y, a.z, a.w}, of_b[4] = {b.x, b.y, b.z, b.w};
  return __byte_perm(of_a[i / 2], of_b[i / 2], i % 2 == 0 ? 0x5410 : 0x7632);
}

/// A number rounded to the 16-bit type.
template <ElementType kType>
__device__ float rounded(float x) {
  if constexpr (kType == ElementType::bfloat16) return __bfloat162float(__float2bfloat16_rn(x));
  return __half2float(__float2half_rn(x));
}

template <int kDim>
struct ValueTile {
  static constexpr int kParts = kDim / 64;
  uint4 rows[4][kParts];

  /// As KeyTile::load().
  __device__ void load(const std::uint16_t* values, int token, int length, int lane) {
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const int own = token + 2 * lane_quad(lane) + r % 2 + r / 2 * 8;
      const std::uint16_t* row = values + static_cast<std::int64_t>(min(own, length - 1)) * kDim + lane_row(lane) * 8;
#pragma unroll
      for (int c = 0; c < kParts; ++c) rows[r][c] = load_streamed(row + c * 64);
    }
  }

  /// out += weights times values. The weights are laid out as TileScores.
  template <ElementType kType>
  __device__ void multiply_add_to(const TileScores& weights, OutputTile<kDim>& out) const {
    const std::uint32_t a[4] = {packed<DeviceElement<kType>>(weights[0][0], weights[0][1]),
                                packed<DeviceElement<kType>>(weights[0][2], weights[0][3]),
                                packed<DeviceElement<kType>>(weights[1][0], weights[1][1]),
                                packed<DeviceElement<kType>>(weights[1][2], weights[1][3])};
#pragma unroll
    for (int n = 0; n < kDim / 8; ++n)
      multiply_add<DeviceElement<kType>>(out[n], a, pair_of(rows[0][n / 8], rows[1][n / 8], n % 8),
                                         pair_of(rows[2][n / 8], rows[3][n / 8], n % 8));
  }
};

/// Calls run(type, dim) with the cache's element type and head_dim as integral constants.
template <class Run>
void with_tiles_of(const ExactCache& cache, Run&& run) {
  const auto with_dim = [&](auto type) {
    if (cache.head_dim == 64)
      run(type, std::integral_constant<int, 64>{});
    else
      run(type, std::integral_constant<int, 128>{});
  };
  if (cache.element_type == ElementType::float16)
    with_dim(std::integral_constant<ElementType, ElementType::float16>{});
  else
    with_dim(std::integral_constant<ElementType, ElementType::bfloat16>{});
}

}  // namespace attest
