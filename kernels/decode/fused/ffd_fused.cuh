// The fused decode kernel: the reference's steps (reference/ffd_reference_cuda.cu) in one launch. It is the
// reference plus these ideas, in the order in which a call meets them:
//
// 1. Layout (ffd_fragments.cuh). The cache stores codes, residuals, values and keys in the order in which a lane of a
//    warp takes its part of an operand of mma.m16n8k16. Nothing is transposed, and no shared-memory bank is hit twice.
// 2. Division of work (ffd_schedule.cuh). One thread block (CTA) of 16 warps per multiprocessor; full blocks and tails
//    are dealt to CTAs by a function of the lengths alone, so that results repeat. A pair's blocks go to its CTAs in
//    turn, because kept blocks cluster. Where pairs are many, a CTA has whole ones: of two CTAs
//    that share a pair, each makes its queries and its pseudo-max, and their results must meet.
// 3. Queries (ffd_query.cuh). They are the columns of B, in two float16 parts, which hold a float32 query times scale.
//    The channel's step is multiplied into B once per block of 128 tokens. What a CTA needs first it copies first:
//    queries while it learns the lengths, then tiles of sink and local blocks, then records.
// 4. Scan (ffd_scan.cuh, ffd_scan_step.cuh). A masked word of codes is a pair of subnormal float16 numbers: tensor
//    cores multiply codes without a conversion. Each warp keeps its own ring of bulk copies in flight, so that warps
//    never wait for each other.
// 5. Decision. Every CTA scores the sink and local blocks itself, a tile for each warp: the pseudo-max is known without
//    communication, and blocks are kept or dropped while their scores are in registers. Only top-k and the global
//    pseudo-max need all maxima first: a barrier of the grid, then ffd_select.cuh.
// 6. Refinement (ffd_refine.cuh, ffd_attend_step.cuh). Kept tiles are dealt to warps, which copy residuals and values
//    through the same shared memory. Scores are s^ of the scan plus the product with the residual. In long sequences
//    heads keep very different shares: a barrier of the grid, then every CTA attends an even share of all kept tiles.
// 7. Merge (ffd_merge.cuh). Warps meet in shared memory; the CTA of a pair that arrives last adds the partial results
//    in their order, so that no second launch is needed and the bits repeat.
// 8. Clusters (ffd_clustered.cuh, a kernel of its own). In short sequences the merge is the longest step: in a cache of
//    few tokens the CTAs of a pair are a cluster instead, and write into each other's shared memory.
// 9. Launch (ffd_fused_launch.cuh). Where no barrier of the grid is needed, a launch begins while the one before ends
//    (programmatic dependent launch): it makes its barriers, and waits before it uses or writes device memory.
//
// What bounds it, measured: experiments/bench/kernel/H200.md.
#pragma once

#include "kernels/decode/fused/ffd_attend_step.cuh"

namespace attest {

/// kStatic: whoever keeps a tile attends it; without the code of the other deal a launch takes a tenth less.
template <class T, int D, int kGroups, int kBits, bool kLate, bool kStatic>
struct FfdFused : FfdAttendStep<T, D, kGroups, kBits, kLate> {
  using Step = FfdStep<T, D, kGroups, kBits>;
  using Scan = FfdScanStep<T, D, kGroups, kBits, kLate>;
  using Attend = FfdAttendStep<T, D, kGroups, kBits, kLate>;
  using Attend::attend_part, Attend::listed_tile;
  using Scan::scan_segment;
  using Step::await_query, Step::copy_query, Step::init_barriers, Step::p, Step::sh, Step::warp, Step::lane;
  using typename Scan::Ring;

  /// Masks of a segment, after `used` others in shared memory. A launch that only scans or only attends uses device
  /// memory.
  __device__ std::uint8_t* masks_of(const FfdSegment& s, int used) {
    if (p.phases == kFfdAllPhases && used + s.blocks <= kFfdSharedMasks) return sh.masks + used;
    return p.masks + base_of(s);
  }
  /// Where a segment's masks begin, and an eighth of where its kept tiles do. Segments without splits lie next to each
  /// other; with splits, each CTA of a pair has a share.
  __device__ unsigned base_of(const FfdSegment& s) const {
    const int before = s.step == 1 ? s.first : s.first * ((s.full + s.step) / s.step);
    return static_cast<unsigned>(s.pair * p.max_masks + before);
  }

  /// The CTA's segments, at most kFfdMaxParts at a time, or the lists of all their kept tiles.
  __device__ void run_segments(const FfdItems& items, FfdSegment s, bool may_balance) {
    const bool balanced = !kStatic && may_balance;
    unsigned issued = 0, copies = 0;
    int listed = 0;
    const unsigned base = balanced ? base_of(s) : 0;
    for (bool more = true; more;) {
      Ring ring{s, warp};
      ring.issued = ring.used = issued;
      if (balanced) ring.segments = 1 << 30;
      int parts = 0, used = 0;
#pragma unroll 1
      while (more && parts < kFfdMaxParts) {
        std::uint8_t* masks = masks_of(s, used);
        if constexpr (kLate) {
          if (p.phases & kFfdSelectPhase) decide_late(p, s, masks, sh.reduction);
        } else {
          if (p.phases & kFfdScanPhase) scan_segment(s, ring, masks, p.pair_kept + s.pair);
        }
        if (!balanced && threadIdx.x == 0) sh.part[parts] = {.segment = s, .masks = masks, .ctas = ctas_of(items, s)};
        __syncthreads();
        if (balanced) {
          if (threadIdx.x == 0) __stcg(p.pair_starts + blockIdx.x + s.pair, listed);
          listed = append_tiles(s, masks, p.kept_tiles + std::int64_t{8} * base, listed, sh.reduction);
        } else {
          ++parts, used += s.blocks;
        }
        more = s.items_left > 0;
        if (more) next_segment(p, s);
      }
      issued = ring.issued;
      if (!balanced && (p.phases & kFfdRefinePhase))
#pragma unroll 1
        for (int i = 0; i < parts; ++i) attend_part(sh.part[i], copies);
    }
    if (balanced && threadIdx.x == 0) {
      __stcg(p.tile_counts + blockIdx.x, listed);
      __stcg(p.tile_bases + blockIdx.x, base);
    }
  }

  /// Where the pair's tiles begin among all that are kept.
  __device__ int first_tile_of(const FfdItems& items, const FfdSegment& s) const {
    const int cta = ctas_of(items, s).x;
    return sh.cta_tiles[cta] + (items.splits > 0 ? 0 : __ldcg(p.pair_starts + cta + s.pair));
  }

  /// Attends the CTA's share of all that is kept.
  __device__ void attend_balanced(const FfdItems& items) {
    const int ctas = static_cast<int>(gridDim.x), cta = static_cast<int>(threadIdx.x);
    const bool lists = cta < items.ctas;
    int total;
    const int before = cta_prefix(lists ? __ldcg(p.tile_counts + cta) : 0, total, sh.reduction);
    if (cta <= ctas) sh.cta_tiles[cta] = before;
    if (lists) sh.cta_bases[cta] = __ldcg(p.tile_bases + cta);
    __syncthreads();
    const int workers = min(ctas, total);
    if (static_cast<int>(blockIdx.x) >= workers) return;
    const FfdShares shares(total, workers);
    int i = shares.begin(static_cast<int>(blockIdx.x));
    const int end = shares.begin(static_cast<int>(blockIdx.x) + 1);
    FfdSegment s = whole_pair(p, static_cast<int>(listed_tile(i).pair), lane);
    int start = first_tile_of(items, s);
    unsigned copies = 0;
#pragma unroll 1
    while (i < end) {
      const FfdSegment own = s;
      int next = total;
      if (s.pair + 1 < p.pairs()) {
        next_segment(p, s);
        next = first_tile_of(items, s);
      }
      const int to = min(end, next);
      // Each thread has its own copy: the others may still look at the part before.
      const FfdPart part{
          .segment = own, .begin = i, .end = to, .ctas = {shares.part_of(start), shares.part_of(next - 1)}};
      attend_part(part, copies);
      i = to, start = next;
    }
  }

  /// Maxima of all segments.
  __device__ void scan_maxima(const FfdItems& items) {
    FfdSegment s = first_segment(p, items, static_cast<int>(blockIdx.x), lane);
    Ring ring{s, warp};
    ring.segments = 1 << 30;
    for (;; next_segment(p, s)) {
      scan_segment(s, ring, nullptr, nullptr);
      __syncthreads();
      if (s.items_left == 0) return;
    }
  }

  __device__ void run() {
    if (warp == kFfdWarps - 1) {
      prefetch_small(p.call.q, p.pairs() * p.group * D * 2, lane);
      prefetch_small(p.call.delta, p.num_kv_heads * 4, lane);
      prefetch_small(p.pair_arrivals, p.pairs() * 4, lane);
      prefetch_small(p.pair_kept, p.pairs() * 4, lane);
    }
    init_barriers();
    const int cta = static_cast<int>(blockIdx.x);
    // The pair that a CTA most likely begins with: its queries are copied beside the lengths.
    const int likely = p.ctas_per_pair > 0 ? small_quotient(cta, p.ctas_per_pair) : static_cast<int>(p.pairs());
    wait_for_launch_before();
    if (kStatic) let_next_launch_begin();
    FfdItems items;
    FfdSegment first;
    bool busy = true;
    if (kStatic && likely < p.pairs()) copy_query(likely);
    if (kStatic && p.one_length) {  // nothing to deal
      if (likely >= p.pairs()) return;
      items.splits = p.ctas_per_pair;
      first = split_segment(p, likely, cta - likely * items.splits, items.splits);
    } else {
      items = deal_items(p, lane);
      busy = cta < items.ctas;
      if (kStatic && !busy) return await_query();
      if (busy) first = first_segment(p, items, cta, lane);
    }
    if (p.phases == kFfdMergePhase) {
      if (!busy) return;
      for (FfdSegment s = first;; next_segment(p, s)) {
        const int2 ctas = ctas_of(items, s);
        if (ctas.x == static_cast<int>(blockIdx.x)) {
          merge_partial<T, D>(p, s.pair, ctas.x, ctas.y);
          if (threadIdx.x == 0) finish_pair(p, s.pair, __ldcg(p.pair_kept + s.pair));
        }
        if (s.items_left == 0) return;
      }
    }
    if constexpr (kLate) {
      if (p.phases & kFfdScanPhase) {
        if (busy) scan_maxima(items);
        if (!(p.phases & kFfdSelectPhase)) return;
        grid_barrier(p.barrier);
      }
    }
    const bool balanced = !kStatic && p.phases == kFfdAllPhases && items.max_per_cta() > p.max_static_items;
    if (busy) run_segments(items, first, balanced);
    if constexpr (!kStatic) {
      if (!balanced) return;
      grid_barrier(p.barrier);
      attend_balanced(items);
    }
  }
};

template <class T, int D, int kGroups, int kBits, bool kLate, bool kStatic>
__global__ void __launch_bounds__(kFfdThreads, 1) ffd_fused_kernel(const __grid_constant__ FfdFusedParams p) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(128) std::uint8_t memory[];
  FfdFused<T, D, kGroups, kBits, kLate, kStatic>{{{{p, *reinterpret_cast<FfdFusedShared<D, kGroups, kBits>*>(memory)}}}}
      .run();
#endif
}

}  // namespace attest
