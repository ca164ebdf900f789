// Attention of a warp over tiles of 16 tokens: kept tiles, whose scores are s^ plus the product with the residual, and
// tiles of the 16-bit tail. Heads are the columns of B, for scores and for outputs.
#pragma once

#include "kernels/decode/fused/ffd_query.cuh"
#include "kernels/device/tensor_core.cuh"

namespace attest {

/// Four e4m3 numbers as float16, in two words.
__device__ inline void halves_of_e4m3(std::uint32_t w, std::uint32_t& lower, std::uint32_t& upper) {
  asm("{\n"
      ".reg .b16 a, b;\n"
      "mov.b32 {a, b}, %2;\n"
      "cvt.rn.f16x2.e4m3x2 %0, a;\n"
      "cvt.rn.f16x2.e4m3x2 %1, b;\n"
      "}"
      : "=r"(lower), "=r"(upper)
      : "r"(w));
}

/// The 8x8 matrix of 16-bit elements that a warp holds, transposed.
__device__ inline std::uint32_t transposed(std::uint32_t x) {
  std::uint32_t y;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(y) : "r"(x));
  return y;
}

__device__ inline float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
/// e^(x - maximum), 0 if both are -inf: two units in the last place.
__device__ inline float exp_of_difference(float x, float maximum) {
  return x == -INFINITY ? 0.0f : exp2_fast((x - maximum) * 1.4426950408889634f);
}

/// Online softmax of up to 16 query heads in a warp. Lane l holds heads 8 * half + 2 (l % 4) + {0, 1}, and of the
/// outputs channels l / 4 and l / 4 + 8 of each step.
template <class T, int D, int kHalves>
struct FfdAttention {
  static constexpr int kSteps = D / 16;
  float o[kHalves][kSteps][4];
  float maximum[kHalves][2], sum[kHalves][2];  ///< sum: of this lane's tokens

  __device__ void clear() {
#pragma unroll
    for (int h = 0; h < kHalves; ++h) {
#pragma unroll
      for (int i = 0; i < kSteps; ++i) o[h][i][0] = o[h][i][1] = o[h][i][2] = o[h][i][3] = 0;
      maximum[h][0] = maximum[h][1] = -INFINITY, sum[h][0] = sum[h][1] = 0;
    }
  }

  /// Adds a tile. x[h][r]: score of row l / 4 + 8 (r / 2), head 2 (l % 4) + r % 2 of half h; -inf where there is none.
  /// values: the tile's, in shared or in device memory.
  __device__ void add(const float (&x)[kHalves][4], const uint4* values, int lane) {
    std::uint32_t p[kHalves][2];
#pragma unroll
    for (int h = 0; h < kHalves; ++h) {
      float fade[2], e[4];
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        float y = fmaxf(x[h][c], x[h][2 + c]);
#pragma unroll
        for (int o = 4; o < 32; o *= 2) y = fmaxf(y, __shfl_xor_sync(~0u, y, o));
        const float now = fmaxf(maximum[h][c], y);
        fade[c] = exp_of_difference(maximum[h][c], now);
        e[c] = exp_of_difference(x[h][c], now);
        e[2 + c] = exp_of_difference(x[h][2 + c], now);
        maximum[h][c] = now;
        sum[h][c] = sum[h][c] * fade[c] + (e[c] + e[2 + c]);
      }
      if (__any_sync(~0u, fade[0] != 1 || fade[1] != 1)) {
#pragma unroll
        for (int i = 0; i < kSteps; ++i)
          o[h][i][0] *= fade[0], o[h][i][1] *= fade[1], o[h][i][2] *= fade[0], o[h][i][3] *= fade[1];
      }
      p[h][0] = transposed(packed<T>(e[0], e[1]));
      p[h][1] = transposed(packed<T>(e[2], e[3]));
    }
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
      const uint4 w = values[i * 32 + lane];
      const std::uint32_t a[4] = {w.x, w.y, w.z, w.w};
#pragma unroll
      for (int h = 0; h < kHalves; ++h) multiply_add<T>(o[h][i], a, p[h][0], p[h][1]);
    }
  }
};

/// Adds the products with the tile's residuals in shared memory to x, which holds s^.
template <int D, int kGroups>
__device__ void add_residual(float (&x)[(kGroups + 1) / 2][4], const FfdQueryFragments<D, kGroups>& query,
                             const std::uint8_t* residual, int lane) {
  constexpr int kHalves = (kGroups + 1) / 2;
  float rest[2][kHalves][4] = {};  // two sums, so that a product need not wait for the one before
#pragma unroll
  for (int i = 0; i < D / 16; i += 2) {
    const uint4 w = *reinterpret_cast<const uint4*>(residual + (i / 2 * 32 + lane) * 16);
    std::uint32_t a[4], b[4];
    halves_of_e4m3(w.x, a[0], a[1]);
    halves_of_e4m3(w.y, a[2], a[3]);
    halves_of_e4m3(w.z, b[0], b[1]);
    halves_of_e4m3(w.w, b[2], b[3]);
#pragma unroll
    for (int h = 0; h < kHalves; ++h) {
      const uint2 q = query.refine[h][i][lane], next = query.refine[h][i + 1][lane];
      multiply_add<__half>(rest[0][h], a, q.x, q.y);
      multiply_add<__half>(rest[1][h], b, next.x, next.y);
    }
  }
#pragma unroll
  for (int h = 0; h < kHalves; ++h)
#pragma unroll
    for (int r = 0; r < 4; ++r)
      x[h][r] += (rest[0][h][r] + rest[1][h][r]) * query.refine_unit[8 * h + 2 * (lane % 4) + r % 2];
}

/// Products of a tile of 16-bit keys in device memory with the queries: x as in FfdAttention::add, before the scale.
template <class T, int D, int kGroups>
__device__ void multiply_keys(float (&x)[(kGroups + 1) / 2][4], const FfdQueryFragments<D, kGroups>& query,
                              const T* keys, int lane) {
  constexpr int kHalves = (kGroups + 1) / 2;
  uint4 w[D / 16];
#pragma unroll
  for (int i = 0; i < D / 16; ++i) w[i] = *(reinterpret_cast<const uint4*>(keys) + i * 32 + lane);
#pragma unroll
  for (int h = 0; h < kHalves; ++h) {
    x[h][0] = x[h][1] = x[h][2] = x[h][3] = 0;
#pragma unroll
    for (int i = 0; i < D / 16; ++i) {
      const std::uint32_t a[4] = {w[i].x, w[i].y, w[i].z, w[i].w};
      const uint2 q = query.exact[h][i][lane];
      multiply_add<T>(x[h], a, q.x, q.y);
    }
  }
}

/// Scores of a tile of the tail, in the order of FfdAttention::add; the first `tokens` of its rows are there.
template <class T, int D, int kGroups>
__device__ void tail_scores(float (&x)[(kGroups + 1) / 2][4], const FfdQueryFragments<D, kGroups>& query, const T* keys,
                            int tokens, float scale, int group, int lane) {
  multiply_keys<T, D, kGroups>(x, query, keys, lane);
#pragma unroll
  for (int h = 0; h < (kGroups + 1) / 2; ++h)
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const bool there = 8 * h + 2 * (lane % 4) + r % 2 < group && lane / 4 + r / 2 * 8 < tokens;
      x[h][r] = there ? x[h][r] * scale : -INFINITY;
    }
}

}  // namespace attest
