// Partial results of a fused decode put together: of a CTA's warps, then of the CTAs that attended tiles of one pair,
// in order.
#pragma once

#include "kernels/decode/fused/ffd_refine.cuh"
#include "kernels/decode/fused/ffd_schedule.cuh"

namespace attest {

/// Counts from 0 to `last` and round again; returns the count before. Whoever counts later sees what was written before
/// by this thread and by those that it has met at a barrier.
__device__ inline unsigned count_up(unsigned* counter, unsigned last) {
  unsigned before;
  asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;" : "=r"(before) : "l"(counter), "r"(last) : "memory");
  return before;
}

/// Floats from a head's sums of values to the next one's in shared memory: four more than channels, so that the four
/// lanes of a warp that store different heads meet different banks.
template <int D>
inline constexpr int kFfdStatePitch = D + 4;

struct FfdMerge {
  float maximum[kFfdWarps][16], sum[kFfdWarps][16];  ///< [warp][head]
  float weight[16][kFfdWarps];
  float2 state[16];  ///< [head] largest score, sum of weights
};

/// Four channels. The sink joins the softmax without a value. No keys at all: zeros, and the log-sum-exp of nothing.
template <class T, int D>
__device__ void write_output(const FfdFusedParams& p, int pair, int quad, float maximum, float sum, float4 y) {
  const int head = quad / (D / 4);
  if (p.call.sinks) {
    const float sink = p.call.sinks[pair % p.num_kv_heads * p.group + head], now = fmaxf(maximum, sink);
    const float fade = exp_of_difference(maximum, now);
    sum = sum * fade + exp_of_difference(sink, now), maximum = now;
    y.x *= fade, y.y *= fade, y.z *= fade, y.w *= fade;
  }
  const float r = sum > 0 ? __fdividef(1.0f, sum) : 0.0f;
  static_cast<uint2*>(p.call.out)[static_cast<std::int64_t>(pair) * p.group * (D / 4) + quad] =
      make_uint2(packed<T>(y.x * r, y.y * r), packed<T>(y.z * r, y.w * r));
  if (quad % (D / 4) == 0) p.call.lse[pair * p.group + head] = maximum + logf(sum);
}

/// What is left to do for a pair whose output is written: its count is reported, and zero for the next launch. One
/// thread.
__device__ inline void finish_pair(const FfdFusedParams& p, int pair, int kept) {
  if (p.call.kept) p.call.kept[pair] = kept;
  p.pair_kept[pair] = 0;
}

/// Writes a quad of the pair's outputs for each lane from the partial results of CTAs first .. last; none beyond the
/// last quad. kAtOnce: lanes of one head, each of which reads the state of another CTA. A whole warp.
template <class T, int D, int kAtOnce = 8>
__device__ void merge_partial(const FfdFusedParams& p, int pair, int first, int last, int quad) {
  static_assert(D / 4 % kAtOnce == 0);
  const int slot = first + pair, quads = p.group * (D / 4), own = min(quad, quads - 1), head = own / (D / 4);
  const auto max_over_lanes = [](float x) {
#pragma unroll
    for (int o = 1; o < kAtOnce; o *= 2) x = fmaxf(x, __shfl_xor_sync(~0u, x, o));
    return x;
  };
  float maximum = -INFINITY, sum = 0;  // sum: of this lane's CTAs
  float4 y = make_float4(0, 0, 0, 0);
#pragma unroll 1
  for (int from = 0; from <= last - first; from += kAtOnce) {
    float4 value[kAtOnce];
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j)
      value[j] =
          __ldcg(reinterpret_cast<const float4*>(p.partial) + (slot + min(from + j, last - first)) * quads + own);
    const int mine = from + quad % kAtOnce;
    const float2 state =
        mine <= last - first ? __ldcg(p.partial_state + (slot + mine) * p.group + head) : make_float2(-INFINITY, 0);
    const float now = fmaxf(maximum, max_over_lanes(state.x)), fade = exp_of_difference(maximum, now),
                weight = exp_of_difference(state.x, now);
    maximum = now, sum = sum * fade + weight * state.y, y.x *= fade, y.y *= fade, y.z *= fade, y.w *= fade;
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      const float w = __shfl_sync(~0u, weight, j, kAtOnce);
      y.x += w * value[j].x, y.y += w * value[j].y, y.z += w * value[j].z, y.w += w * value[j].w;
    }
  }
#pragma unroll
  for (int o = 1; o < kAtOnce; o *= 2) sum += __shfl_xor_sync(~0u, sum, o);
  if (quad < quads) write_output<T, D>(p, pair, quad, maximum, sum, y);
}

/// Puts the warps' states into shared memory: m.weight, m.state, and sums of values in `areas`, each warp's own memory,
/// `pitch` bytes apart, free. All threads.
template <class T, int D, int kHalves>
__device__ void share_warp_states(const FfdFusedParams& p, FfdMerge& m, FfdAttention<T, D, kHalves>& state,
                                  std::uint8_t* areas, int pitch) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4,
            t = lane % 4;
  auto* own = reinterpret_cast<float*>(areas + warp * pitch);
#pragma unroll
  for (int h = 0; h < kHalves; ++h)
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      float sum = state.sum[h][c];
#pragma unroll
      for (int o = 4; o < 32; o *= 2) sum += __shfl_xor_sync(~0u, sum, o);
      const int head = 8 * h + 2 * t + c;
      if (head >= p.group) continue;
      if (g == 0) m.maximum[warp][head] = state.maximum[h][c], m.sum[warp][head] = sum;
      if (state.maximum[h][c] == -INFINITY) continue;
#pragma unroll
      for (int i = 0; i < D / 16; ++i) {
        own[head * kFfdStatePitch<D> + 16 * i + g] = state.o[h][i][c];
        own[head * kFfdStatePitch<D> + 16 * i + g + 8] = state.o[h][i][2 + c];
      }
    }
  __syncthreads();
  if (threadIdx.x < 256) {  // 16 lanes per head
    const int head = static_cast<int>(threadIdx.x) / 16, w = static_cast<int>(threadIdx.x) % 16;
    const bool there = head < p.group;
    const float own_max = there ? m.maximum[w][head] : -INFINITY;
    float maximum = own_max;
#pragma unroll
    for (int o = 8; o; o /= 2) maximum = fmaxf(maximum, __shfl_xor_sync(~0u, maximum, o));
    const float weight = exp_of_difference(own_max, maximum);
    float sum = there ? weight * m.sum[w][head] : 0.0f;
#pragma unroll
    for (int o = 8; o; o /= 2) sum += __shfl_xor_sync(~0u, sum, o);
    m.weight[head][w] = weight;
    if (w == 0) m.state[head] = make_float2(maximum, sum);
  }
  __syncthreads();
}

/// Four channels of the sum over the warps. quad = head * D / 4 + channel / 4.
template <int D>
__device__ float4 sum_over_warps(const FfdMerge& m, const std::uint8_t* areas, int pitch, int quad) {
  const int head = quad / (D / 4), at = head * kFfdStatePitch<D> + 4 * (quad % (D / 4));
  float4 y = make_float4(0, 0, 0, 0);
#pragma unroll
  for (int w = 0; w < kFfdWarps; ++w) {
    const float weight = m.weight[head][w];
    if (weight == 0) continue;  // the warp attended nothing, and wrote nothing
    const float4 v = *reinterpret_cast<const float4*>(areas + w * pitch + at * 4);
    y.x += weight * v.x, y.y += weight * v.y, y.z += weight * v.z, y.w += weight * v.w;
  }
  return y;
}

/// Puts the warps' states together. `areas`: as of share_warp_states(). Each warp has 32 quads of the outputs; the last
/// of the pair's CTAs in which it has its sums writes them. kMany: the kernel has the registers to read the results
/// of many CTAs at once, which shortens the wait; of few, lanes would read some twice. All threads.
template <class T, int D, int kHalves, bool kMany = false>
__device__ void merge_warps(const FfdFusedParams& p, FfdMerge& m, FfdAttention<T, D, kHalves>& state,
                            std::uint8_t* areas, int pitch, int pair, int first, int last) {
  static_assert(kFfdMaxGroup * (D / 4) <= kFfdThreads);
  share_warp_states(p, m, state, areas, pitch);
  const bool merges = p.phases & kFfdMergePhase, alone = first == last && merges;
  const int slot = static_cast<int>(blockIdx.x) + pair, quads = p.group * (D / 4);
  const int quad = static_cast<int>(threadIdx.x), warp = quad / 32, lane = quad % 32, head = quad / (D / 4);
  if (32 * warp >= quads) return;
  if (quad < quads) {
    const float4 y = sum_over_warps<D>(m, areas, pitch, quad);
    const float2 s = m.state[head];
    if (alone) {
      write_output<T, D>(p, pair, quad, s.x, s.y, y);
    } else {
      __stcg(reinterpret_cast<float4*>(p.partial) + slot * quads + quad, y);
      if (quad % (D / 4) == 0) __stcg(p.partial_state + slot * p.group + head, s);
    }
  }
  if (!merges) return;
  const auto others = static_cast<unsigned>(last - first);
  if (!alone) {
    __syncwarp();
    unsigned before = 0;
    if (lane == 0) before = count_up(p.pair_arrivals + pair * kFfdWarps + warp, others);
    if (__shfl_sync(~0u, before, 0) != others) return;
    __syncwarp();
  }
  const int kept = quad == 0 ? __ldcg(p.pair_kept + pair) : 0;
  if (kMany && others >= 8)
    merge_partial<T, D, 16>(p, pair, first, last, quad);
  else if (!alone)
    merge_partial<T, D>(p, pair, first, last, quad);
  if (quad == 0) finish_pair(p, pair, kept);
}

}  // namespace attest
