// Who does what in the fused decode: items (full blocks, and the tail of each pair) are dealt to CTAs. The division is
// a function of the lengths alone, so that results repeat.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/decode/base/ffd_deal.h"
#include "kernels/decode/fused/ffd_fused_params.h"
#include "kernels/device/block_reduce.cuh"
#include "kernels/device/cache_policy.cuh"

namespace attest {

inline constexpr int kFfdWarps = 16;
inline constexpr int kFfdThreads = 32 * kFfdWarps;

/// a / b for 0 <= a < 2^20 and 0 < b < 2^20: (a + 1/2) / b is further from an integer than float32 can err. A third of
/// the time of an integer division.
__device__ inline int small_quotient(int a, int b) {
  return static_cast<int>(__fdividef(static_cast<float>(a) + 0.5f, static_cast<float>(b)));
}
/// Not inlined: instructions that are not in the cache cost more than a call.
__device__ inline __noinline__ int quotient(int a, int b) {
  return a < 1 << 20 && b < 1 << 20 ? small_quotient(a, b) : a / b;
}

/// An even division of `count` things among `parts`, 1 <= parts <= count: the first `count % parts` get one more.
struct FfdShares {
  int each = 1, more = 0;

  FfdShares() = default;
  __device__ FfdShares(int count, int parts) : each(quotient(count, parts)), more(count - each * parts) {}
  __device__ int begin(int part) const { return part * each + min(part, more); }
  __device__ int part_of(int i) const {
    const int large = more * (each + 1);
    return i < large ? quotient(i, each + 1) : more + quotient(i - large, each);
  }
};

/// A pair has an item per full block and one for its tail, in this order; pairs follow each other.
struct FfdItems {
  int ctas = 1;      ///< that have items
  int count = 0;     ///< items of all pairs; without splits
  int per_pair = 0;  ///< items, if whole CTAs are dealt to pairs
  /// CTAs per pair, if whole CTAs are dealt to pairs: a pair's items are then dealt to them in turn, because kept
  /// blocks cluster. Else 0.
  int splits = 0;
  int pairs_each = 0;  ///< of a CTA, where every CTA has as many (FfdWholePairs); else 0
  FfdShares shares;    ///< without splits: of all items among all CTAs

  __device__ int max_per_cta() const {
    return splits > 0 ? (per_pair + splits - 1) / splits : shares.each + (shares.more > 0 ? 1 : 0);
  }
  /// The CTA of an item; without splits.
  __device__ int cta_of(int item) const { return shares.part_of(item); }
};

/// Items of one pair that a CTA has: full blocks first, first + step, ...
struct FfdSegment {
  int pair = 0, kv_head = 0, sequence = 0;
  int length = 0, full = 0;  ///< of the pair: tokens, full blocks
  int first = 0, step = 1, blocks = 0;
  bool tail = false;   ///< the tail is among the items
  int pair_item = 0;   ///< first item of the pair; without splits
  int items_left = 0;  ///< of the CTA, after this segment

  __device__ int block(int i) const { return first + i * step; }
  __device__ int tail_tokens() const { return length - full * kFfdBlock; }
  __device__ int tail_tiles() const { return tail ? (tail_tokens() + 15) / 16 : 0; }
};

/// Whole CTAs may be dealt to pairs, or whole pairs to CTAs: few stay idle.
__host__ __device__ constexpr bool nearly_all(int busy, int ctas) { return busy * 20 >= ctas * 19; }

/// Run by a whole warp.
__device__ inline FfdItems deal_items(const FfdFusedParams& p, int lane) {
  int minimum, maximum, sum;
  if (p.batch == 1) {
    minimum = maximum = sum = p.cache.lengths[0] / kFfdBlock + 1;
  } else {
    minimum = 1 << 30, maximum = sum = 0;
#pragma unroll 1
    for (int b = lane; b < p.batch; b += 32) {
      const int items = p.cache.lengths[b] / kFfdBlock + 1;
      minimum = min(minimum, items), maximum = max(maximum, items), sum += items;
    }
    minimum = __reduce_min_sync(~0u, minimum);
    maximum = __reduce_max_sync(~0u, maximum);
    sum = __reduce_add_sync(~0u, sum);
  }
  FfdItems items;
  const int ctas = static_cast<int>(gridDim.x), pairs = p.batch * p.num_kv_heads;
  const int splits = min(p.ctas_per_pair, maximum);
  if (minimum == maximum && splits > 0 && nearly_all(pairs * splits, ctas)) {
    items.per_pair = maximum;
    items.splits = splits;
    items.ctas = pairs * splits;
    return items;
  }
  items.count = sum * p.num_kv_heads;
  const int whole = quotient(pairs + ctas - 1, ctas);  // pairs of a CTA
  if (minimum == maximum && pairs > ctas && nearly_all(pairs, whole * ctas)) {
    items.ctas = quotient(pairs + whole - 1, whole);
    items.shares.each = whole * maximum;
    return items;
  }
  items.ctas = min(ctas, items.count);
  items.shares = FfdShares(items.count, items.ctas);
  return items;
}

__device__ inline void set_blocks(FfdSegment& s, int first_item, int items) {
  const int own = min(items, s.full + 1 - first_item);
  s.first = first_item;
  s.tail = first_item + own == s.full + 1;
  s.blocks = own - (s.tail ? 1 : 0);
  s.items_left = items - own;
}

/// Every `splits`-th item of a pair.
__device__ inline FfdSegment split_segment(const FfdFusedParams& p, int pair, int split, int splits) {
  FfdSegment s;
  s.pair = pair;
  s.first = split;
  s.step = splits;
  s.sequence = p.batch == 1 ? 0 : quotient(s.pair, p.num_kv_heads);
  s.kv_head = s.pair - s.sequence * p.num_kv_heads;
  s.length = p.cache.lengths[s.sequence];
  s.full = s.length / kFfdBlock;
  const int items = quotient(s.full + 1 - s.first + s.step - 1, s.step);
  s.tail = items > 0 && s.first + (items - 1) * s.step == s.full;
  s.blocks = items - (s.tail ? 1 : 0);
  return s;
}

/// The first segment of a CTA that has items. Run by a whole warp.
__device__ inline FfdSegment first_segment(const FfdFusedParams& p, const FfdItems& all, int cta, int lane) {
  if (all.splits > 0) {
    const int pair = small_quotient(cta, all.splits);
    return split_segment(p, pair, cta - pair * all.splits, all.splits);
  }
  FfdSegment s;
  const int first = all.shares.begin(cta), items = min(all.shares.begin(cta + 1), all.count) - first;
  int item = first;
#pragma unroll 1
  for (int base = 0;; base += 32) {
    const int b = base + lane;
    const int mine = b < p.batch ? (p.cache.lengths[b] / kFfdBlock + 1) * p.num_kv_heads : 0;
    const int before = warp_inclusive_sum(mine);
    const unsigned past = __ballot_sync(~0u, before > item);
    if (past == 0) {
      item -= __shfl_sync(~0u, before, 31);
      continue;
    }
    const int who = __ffs(static_cast<int>(past)) - 1;
    item -= __shfl_sync(~0u, before - mine, who);
    s.sequence = base + who;
    break;
  }
  s.length = p.cache.lengths[s.sequence];
  s.full = s.length / kFfdBlock;
  s.kv_head = quotient(item, s.full + 1);
  item -= s.kv_head * (s.full + 1);
  s.pair = s.sequence * p.num_kv_heads + s.kv_head;
  s.pair_item = first - item;
  set_blocks(s, item, items);
  return s;
}

/// The CTA's segment after this one; items_left > 0, so that there are no splits.
__device__ inline void next_segment(const FfdFusedParams& p, FfdSegment& s) {
  ++s.pair;
  s.pair_item += s.full + 1;
  if (++s.kv_head == p.num_kv_heads) {
    s.kv_head = 0;
    s.length = p.cache.lengths[++s.sequence];
    s.full = s.length / kFfdBlock;
  }
  set_blocks(s, 0, s.items_left);
}

/// Waits until what the launch before has written is visible. A launch that may begin before the one before has ended
/// (cudaLaunchAttributeProgrammaticStreamSerialization) reads and writes device memory after it alone.
__device__ inline void wait_for_launch_before() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
/// A launch that may begin early begins where CTAs of this one have ended, once all of them have called this.
__device__ inline void let_next_launch_begin() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }

/// Waits for all CTAs of the grid, which must all be resident. Writes before it are visible after it. The counter's top
/// bit changes when the last CTA has arrived; it needs no reset.
__device__ inline void grid_barrier(unsigned* counter) {
  __syncthreads();
  if (threadIdx.x == 0) {
    const unsigned own = blockIdx.x == 0 ? 0x80000000u - (gridDim.x - 1) : 1u;
    unsigned before, now;
    asm volatile("atom.add.release.gpu.global.u32 %0, [%1], %2;" : "=r"(before) : "l"(counter), "r"(own) : "memory");
    do {
      asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(counter) : "memory");
    } while (((now ^ before) & 0x80000000u) == 0);
  }
  __syncthreads();
}

/// A pair as one segment with its tail, without splits: as needed by ctas_of(). Run by a whole warp.
__device__ inline FfdSegment whole_pair(const FfdFusedParams& p, int pair, int lane) {
  FfdSegment s;
  s.pair = pair;
  s.sequence = quotient(pair, p.num_kv_heads);
  s.kv_head = pair - s.sequence * p.num_kv_heads;
  int before = 0;
#pragma unroll 1
  for (int b = lane; b < s.sequence; b += 32) before += p.cache.lengths[b] / kFfdBlock + 1;
  s.length = p.cache.lengths[s.sequence];
  s.full = s.length / kFfdBlock;
  s.pair_item = __reduce_add_sync(~0u, before) * p.num_kv_heads + s.kv_head * (s.full + 1);
  s.items_left = 1 << 30;
  set_blocks(s, 0, s.full + 1);
  s.items_left = 1 << 30;
  return s;
}

/// First and last CTA that have items of the segment's pair.
__device__ inline int2 ctas_of(const FfdItems& all, const FfdSegment& s) {
  if (all.splits > 0) return make_int2(s.pair * all.splits, (s.pair + 1) * all.splits - 1);
  if (all.pairs_each > 0) {
    const int cta = quotient(s.pair, all.pairs_each);
    return make_int2(cta, cta);
  }
  return make_int2(all.cta_of(s.pair_item), all.cta_of(s.pair_item + s.full));
}

/// Brings what every CTA will need soon into the L2 cache, each CTA a part of it. Run by a whole warp.
__device__ inline void prefetch_small(const void* begin, std::int64_t bytes, int lane) {
  const std::int64_t at = (static_cast<std::int64_t>(lane) * gridDim.x + blockIdx.x) * kCacheLine;
  if (at < bytes) prefetch_line(static_cast<const char*>(begin) + at);
}
/// Brings a pair's length, queries of up to 8 heads, delta and counts into the L2 cache. Run by a whole warp.
template <int D>
__device__ void prefetch_pair(const FfdFusedParams& p, int pair, int lane) {
  const int sequence = p.batch == 1 ? 0 : quotient(pair, p.num_kv_heads), bytes = p.group * D * 2;
  if (lane == 0) prefetch_line(p.cache.lengths + sequence);
  if (lane == 1) prefetch_line(p.call.delta + (pair - sequence * p.num_kv_heads));
  if (lane == 2) prefetch_line(p.pair_arrivals + pair * kFfdWarps);
  if (lane == 3) prefetch_line(p.pair_kept + pair);
  const int at = lane * kCacheLine;
  if (at < bytes) prefetch_line(static_cast<const char*>(p.call.q) + std::int64_t{pair} * bytes + at);
}
/// Queries, deltas and counts of a call.
__device__ inline void prefetch_call(const FfdFusedParams& p, int head_dim, int lane) {
  prefetch_small(p.call.q, p.pairs() * p.group * head_dim * 2, lane);
  prefetch_small(p.call.delta, p.num_kv_heads * 4, lane);
  prefetch_small(p.pair_arrivals, p.pairs() * kFfdWarps * 4, lane);
  prefetch_small(p.pair_kept, p.pairs() * 4, lane);
}

}  // namespace attest
