// What is kept if the decision needs the maxima of all blocks of a pair: top-k, and a pseudo-max over all blocks.
#pragma once

#include "kernels/decode/base/top_k.cuh"
#include "kernels/decode/fused/ffd_fragments.cuh"
#include "kernels/decode/fused/ffd_schedule.cuh"

namespace attest {

/// Scratch of sums and maxima over a CTA's threads.
struct FfdReduction {
  int warp_sums[kFfdWarps];
  float warp_maxima[kFfdWarps];
};

/// Sum over all threads of the CTA. All threads.
__device__ inline int cta_sum(int x, FfdReduction& r) {
  x = __reduce_add_sync(~0u, x);
  __syncthreads();
  if (threadIdx.x % 32 == 0) r.warp_sums[threadIdx.x / 32] = x;
  __syncthreads();
  int sum = 0;
#pragma unroll
  for (int w = 0; w < kFfdWarps; ++w) sum += r.warp_sums[w];
  return sum;
}

__device__ inline float cta_max(float x, FfdReduction& r) {
#pragma unroll
  for (int o = 16; o; o /= 2) x = fmaxf(x, __shfl_xor_sync(~0u, x, o));
  __syncthreads();
  if (threadIdx.x % 32 == 0) r.warp_maxima[threadIdx.x / 32] = x;
  __syncthreads();
  float maximum = -INFINITY;
#pragma unroll
  for (int w = 0; w < kFfdWarps; ++w) maximum = fmaxf(maximum, r.warp_maxima[w]);
  return maximum;
}

/// Sum of x over the threads before this one; `total` over all. All threads.
__device__ inline int cta_prefix(int x, int& total, FfdReduction& r) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int inclusive = warp_inclusive_sum(x);
  __syncthreads();
  if (lane == 31) r.warp_sums[warp] = inclusive;
  __syncthreads();
  int before = 0;
  total = 0;
#pragma unroll
  for (int w = 0; w < kFfdWarps; ++w) {
    before += w < warp ? r.warp_sums[w] : 0;
    total += r.warp_sums[w];
  }
  return before + inclusive - x;
}

/// Appends the segment's kept tiles to `list` after `count` others; a pair has at least one, of its tail. All threads;
/// `count` is the same in all. Returns the new count.
__device__ inline int append_tiles(const FfdSegment& s, const std::uint8_t* masks, FfdKeptTile* list, int count,
                                   FfdReduction& r) {
#pragma unroll 1
  for (int from = 0; from < s.blocks; from += kFfdThreads) {
    const int i = from + static_cast<int>(threadIdx.x);
    unsigned mask = i < s.blocks ? masks[i] : 0;
    int total;
    int at = count + cta_prefix(__popc(mask), total, r);
#pragma unroll 1
    for (; mask; mask &= mask - 1)
      list[at++] = {static_cast<std::uint32_t>(s.pair),
                    static_cast<std::uint32_t>(s.block(i) * kFfdTiles + __ffs(static_cast<int>(mask)) - 1)};
    count += total;
  }
  if (!s.tail) return count;
  const int tiles = max(1, s.tail_tiles());
  if (static_cast<int>(threadIdx.x) < tiles)
    list[count + threadIdx.x] = {static_cast<std::uint32_t>(s.pair), FfdKeptTile::kTail + threadIdx.x};
  return count + tiles;
}

/// Of a pair's maxima. All threads; 1 <= n <= count.
__device__ inline __noinline__ FfdTopK largest_maxima(const float* maxima, int count, int n, FfdReduction& r) {
  constexpr int kHeld = 8;  // per thread, in registers
  std::uint32_t held[kHeld];
#pragma unroll
  for (int i = 0; i < kHeld; ++i) {
    const int at = i * kFfdThreads + static_cast<int>(threadIdx.x);
    held[i] = at < count ? ordered_bits(__ldcg(maxima + at)) : 0;
  }
  return largest_maxima(count, n, [&](auto&& counts) {
    int own = 0;
#pragma unroll
    for (int i = 0; i < kHeld; ++i)
      own += held[i] != 0 && counts(held[i], i * kFfdThreads + static_cast<int>(threadIdx.x));
    for (int at = kHeld * kFfdThreads + static_cast<int>(threadIdx.x); at < count; at += kFfdThreads)
      own += counts(ordered_bits(__ldcg(maxima + at)), at);
    return cta_sum(own, r);
  });
}

/// Decides for the segment's blocks from the maxima of all blocks of its pair (topk, pseudo_max = global). masks
/// [segment.blocks]. All threads.
__device__ inline __noinline__ void decide_late(const FfdFusedParams& p, const FfdSegment& s, std::uint8_t* masks,
                                                FfdReduction& r) {
  const int sub_tiles = p.sub_tiles(), per_block = kFfdBlock / p.options.sub_block, count = s.full * per_block;
  const std::int64_t base = static_cast<std::int64_t>(s.pair) * p.max_blocks * per_block;
  const unsigned sub_mask = (1u << sub_tiles) - 1;
  if (s.blocks == 0) return;
  if (p.options.rule == FfdDecodeRule::topk) {
    const float* maxima = p.maxima + base;
    const FfdTopK top = largest_maxima(maxima, count, min(max(p.options.keep_sub_blocks, 1), count), r);
    for (int i = static_cast<int>(threadIdx.x); i < s.blocks; i += kFfdThreads) {
      unsigned mask = 0;
      for (int c = 0; c < per_block; ++c) {
        const int at = s.block(i) * per_block + c;
        if (top.keeps(__ldcg(maxima + at), at)) mask |= sub_mask << (c * sub_tiles);
      }
      masks[i] = static_cast<std::uint8_t>(mask);
      if (mask) atomicAdd(p.pair_kept + s.pair, __popc(mask) / sub_tiles);
    }
    return;
  }
  const float* maxima = p.head_maxima + base * p.group;
  const float delta = p.call.delta[s.kv_head];
  float threshold[kFfdMaxGroup];
  for (int h = 0; h < p.group; ++h) {
    float maximum = -INFINITY;
    for (int i = static_cast<int>(threadIdx.x); i < count; i += kFfdThreads)
      maximum = fmaxf(maximum, __ldcg(maxima + static_cast<std::int64_t>(i) * p.group + h));
    threshold[h] = cta_max(maximum, r) - delta;
  }
  for (int i = static_cast<int>(threadIdx.x); i < s.blocks; i += kFfdThreads) {
    unsigned mask = 0;
    for (int c = 0; c < per_block; ++c)
      for (int h = 0; h < p.group; ++h)
        if (__ldcg(maxima + (static_cast<std::int64_t>(s.block(i)) * per_block + c) * p.group + h) >= threshold[h])
          mask |= sub_mask << (c * sub_tiles);
    masks[i] = static_cast<std::uint8_t>(mask);
    if (mask) atomicAdd(p.pair_kept + s.pair, __popc(mask) / sub_tiles);
  }
}

}  // namespace attest
