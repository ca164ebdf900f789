// Attention over a part of the tokens: a warp's online softmax, the sum of a thread block's warps, and the merge of the
// parts of one sequence. Everything is added in a fixed order.
#pragma once

#include <cmath>
#include <cstddef>

#include "kernels/decode/baselines/token_tiles.cuh"

namespace attest {

/// What thread blocks leave for the merge: a slot is a part of one pair.
struct AttentionParts {
  float2* states = nullptr;  ///< [slots, G] largest score m, sum of exp(s - m)
  float* outs = nullptr;     ///< [slots, G, D] sums of exp(s - m) v

  static std::size_t bytes(const ExactCache& cache, std::int64_t slots) {
    return static_cast<std::size_t>(slots * cache.group) * (sizeof(float2) + sizeof(float) * cache.head_dim);
  }
  AttentionParts(const ExactCache& cache, std::int64_t slots, std::byte* memory)
      : states(reinterpret_cast<float2*>(memory)), outs(reinterpret_cast<float*>(states + slots * cache.group)) {}
};

/// exp(m - maximum) for the largest score m of a part; 0 if the part is empty.
__device__ inline float part_weight(float m, float maximum) { return m == -INFINITY ? 0.0f : __expf(m - maximum); }

/// How weights go into the product with the values: rounded to the 16-bit type, or as the sum of two such numbers,
/// which leaves a relative error of 2^-22 (float16; at least 2^-25 of the largest weight) or 2^-17 (bfloat16).
enum class WeightBits { one_number, two_numbers };

template <ElementType kType, int kDim, WeightBits kWeights = WeightBits::one_number>
struct SoftmaxState {
  float maximum[2] = {-INFINITY, -INFINITY};  ///< of heads lane_row and lane_row + 8
  float sum[2] = {0, 0};                      ///< of the lane's own tokens
  OutputTile<kDim> out = {};

  /// Adds the first `valid` >= 1 tokens of a tile. `s` are their scores, and becomes their weights.
  __device__ void add(TileScores& s, int valid, const ValueTile<kDim>& values, int lane) {
    float factor[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float largest = maximum[half];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float& score = s[i / 2][2 * half + i % 2];
        if (score_token(i / 2, i % 2, lane) >= valid) score = -INFINITY;
        largest = fmaxf(largest, score);
      }
      largest = fmaxf(largest, __shfl_xor_sync(0xFFFFFFFFu, largest, 1));
      largest = fmaxf(largest, __shfl_xor_sync(0xFFFFFFFFu, largest, 2));
      factor[half] = part_weight(maximum[half], largest);
      maximum[half] = largest;
      sum[half] *= factor[half];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float& score = s[i / 2][2 * half + i % 2];
        score = __expf(score - largest);
        sum[half] += score;
      }
    }
    if (__any_sync(0xFFFFFFFFu, factor[0] != 1 || factor[1] != 1)) {
#pragma unroll
      for (int n = 0; n < kDim / 8; ++n) {
        out[n][0] *= factor[0], out[n][1] *= factor[0];
        out[n][2] *= factor[1], out[n][3] *= factor[1];
      }
    }
    values.template multiply_add_to<kType>(s, out);
    if constexpr (kWeights == WeightBits::two_numbers) {
#pragma unroll
      for (int i = 0; i < 8; ++i) s[i / 4][i % 4] -= rounded<kType>(s[i / 4][i % 4]);
      values.template multiply_add_to<kType>(s, out);
    }
  }
};

/// Shared memory of store_part(), in bytes.
inline std::size_t store_part_bytes(const ExactCache& cache, int warps) {
  return static_cast<std::size_t>(warps) * (kTileHeads * sizeof(float2) + sizeof(float) * cache.group * cache.head_dim);
}

/// Writes the sum of the states of a block's kWarps warps to a slot. Contains barriers: `shared` is free on return.
template <int kWarps, ElementType kType, int kDim, WeightBits kWeights>
__device__ void store_part(SoftmaxState<kType, kDim, kWeights>& state, int group, const AttentionParts& parts, int slot,
                           void* shared) {
  auto* states = static_cast<float2*>(shared);                          // [kWarps, kTileHeads]
  auto* outs = reinterpret_cast<float*>(states + kWarps * kTileHeads);  // [kWarps, G, kDim]
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const auto max_of = [&](int head) {
    float maximum = -INFINITY;
    for (int w = 0; w < kWarps; ++w) maximum = fmaxf(maximum, states[w * kTileHeads + head].x);
    return maximum;
  };
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    state.sum[half] += __shfl_xor_sync(0xFFFFFFFFu, state.sum[half], 1);
    state.sum[half] += __shfl_xor_sync(0xFFFFFFFFu, state.sum[half], 2);
    if (lane_quad(lane) == 0)
      states[warp * kTileHeads + lane_row(lane) + half * 8] = {state.maximum[half], state.sum[half]};
  }
  __syncthreads();
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int head = lane_row(lane) + half * 8;
    if (head >= group) continue;
    const float weight = part_weight(state.maximum[half], max_of(head));
    float* to = outs + (warp * group + head) * kDim;
#pragma unroll
    for (int n = 0; n < kDim / 8; n += 4)
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int i = 2 * half + e;
        *reinterpret_cast<float4*>(to + output_channel(n, e, lane)) = {
            state.out[n][i] * weight, state.out[n + 1][i] * weight, state.out[n + 2][i] * weight,
            state.out[n + 3][i] * weight};
      }
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < group * kDim; i += 32 * kWarps) {
    float sum = 0;
    for (int w = 0; w < kWarps; ++w) sum += outs[w * group * kDim + i];
    parts.outs[static_cast<std::int64_t>(slot) * group * kDim + i] = sum;
  }
  for (int head = static_cast<int>(threadIdx.x); head < group; head += 32 * kWarps) {
    const float maximum = max_of(head);
    float sum = 0;
    for (int w = 0; w < kWarps; ++w) {
      const float2 own = states[w * kTileHeads + head];
      sum += own.y * part_weight(own.x, maximum);
    }
    parts.states[static_cast<std::int64_t>(slot) * group + head] = {maximum, sum};
  }
  __syncthreads();
}

/// Where attention goes. Device pointers.
struct AttentionOutput {
  const float* sinks = nullptr;  ///< [Hq] logits of learned sinks, or null
  void* out = nullptr;           ///< [batch, Hq, D]; 0 where nothing is attended
  float* lse = nullptr;          ///< [batch, Hq] log-sum-exp, sink included; -infinity where there is nothing
};

/// Merges slots [begin, end) of a pair for one of its heads, in order. A thread per channel: blockDim.x = D. Returns
/// the output's channel before it is rounded.
template <ElementType kType>
__device__ float merge_parts(const ExactCache& cache, const AttentionParts& parts, int pair, int head, int begin,
                             int end, const AttentionOutput& result) {
  const int channel = static_cast<int>(threadIdx.x), dim = cache.head_dim, group = cache.group;
  const int of_layer = pair % cache.num_kv_heads * group + head;
  const float sink = result.sinks == nullptr ? -INFINITY : result.sinks[of_layer];
  float maximum = sink;
  for (int slot = begin; slot < end; ++slot)
    maximum = fmaxf(maximum, parts.states[static_cast<std::int64_t>(slot) * group + head].x);
  float sum = part_weight(sink, maximum), out = 0;
#pragma unroll 4
  for (int slot = begin; slot < end; ++slot) {
    const std::int64_t at = static_cast<std::int64_t>(slot) * group + head;
    const float2 state = parts.states[at];
    const float weight = part_weight(state.x, maximum);
    sum += state.y * weight;
    out += parts.outs[at * dim + channel] * weight;
  }
  if (sum > 0) out /= sum;
  const std::int64_t row = static_cast<std::int64_t>(pair) * group + head;
  const std::uint32_t bits = packed<DeviceElement<kType>>(out, 0);
  static_cast<std::uint16_t*>(result.out)[row * dim + channel] = static_cast<std::uint16_t>(bits & 0xFFFFu);
  if (channel == 0) result.lse[row] = sum > 0 ? maximum + __logf(sum) : -INFINITY;
  return out;
}

}  // namespace attest
