// The fused decode kernel: the reference's steps (reference/ffd_reference_cuda.cu) in one launch. It is the
// reference plus these ideas, in the order in which a call meets them:
//
// 1. Layout (ffd_fragments.cuh). The cache stores codes, residuals, values and keys in the order in which a lane of a
//    warp takes its part of an operand of mma.m16n8k16. Nothing is transposed, and no shared-memory bank is hit twice.
// 2. Division of work (ffd_schedule.cuh). One thread block (CTA) of 16 warps per multiprocessor; full blocks and tails
//    are dealt to CTAs by a function of the lengths alone, so that results repeat. A pair's blocks go to its CTAs in
//    turn, because kept blocks cluster. Where pairs are many, a CTA has whole ones: of two CTAs
//    that share a pair, each makes its queries and its pseudo-max, and their results must meet. A caller that knows
//    what pairs keep may have CTAs dealt by that (base/ffd_deal.h).
// 3. Queries (ffd_query.cuh). They are the columns of B, in two float16 parts, which hold a float32 query times scale.
//    The channel's step is multiplied into B once per block of 128 tokens. What a CTA needs first it copies first:
//    queries while it learns the lengths, then sink and local blocks, then records.
// 4. Scan (ffd_scan.cuh, ffd_scan_step.cuh). A masked word of codes is a pair of subnormal float16 numbers: tensor
//    cores multiply codes without a conversion. Each warp keeps its own ring of bulk copies in flight, so that warps
//    never wait for each other.
// 5. Decision. Every CTA scores the sink and local blocks itself, half a block for each of its last warps: the
//    pseudo-max is known without communication, and blocks are kept or dropped while their scores are in registers.
//    Only top-k and the global pseudo-max need all maxima first: a barrier of the grid, then ffd_select.cuh.
// 6. Refinement (ffd_refine.cuh, ffd_attend_step.cuh). Kept tiles are dealt to warps, which copy residuals and values
//    through the same shared memory. Scores are s^ of the scan plus the product with the residual. In long sequences
//    heads keep very different shares: a barrier of the grid, then every CTA attends an even share of all kept tiles.
//    In a kernel of one length, some come into the L2 cache while the last blocks are scanned, as memory is idle then.
// 7. Scores between scan and refinement (ffd_scores.cuh). They are written to stay in the L2 cache, and if they are
//    many discarded there when they have been read: else each would be written to device memory, in calls that are
//    bound by it.
// 8. Merge (ffd_merge.cuh). Warps meet in shared memory; the CTA of a pair that arrives last adds the partial results
//    in their order, so that no second launch is needed and the bits repeat.
// 9. Sequences of one length have kernels of their own, whose code takes fewer registers: where CTAs are enough, each
//    has blocks of one pair alone (ffd_one_length.cuh); where pairs are more, each has as many whole ones
//    (ffd_whole_pairs.cuh).
// 10. Clusters (ffd_clustered.cuh, a kernel of its own). In short sequences the merge is the longest step: in a cache
//    of few tokens the CTAs of a pair are a cluster instead, and write into each other's shared memory.
// 11. Launch (ffd_fused_launch.cuh). Where no barrier of the grid is needed, a launch begins while the one before ends
//    (programmatic dependent launch): it makes its barriers, brings lengths and queries into the L2 cache, and waits
//    before it uses or writes device memory.
//
// What bounds it, measured: experiments/bench/kernel/H200.md.
#pragma once

#include "kernels/decode/fused/ffd_even_deal.cuh"

namespace attest {

/// kStatic: whoever keeps a tile attends it; without the code of the other deal a launch takes a tenth less.
template <class T, int D, int kGroups, int kBits, bool kLate, bool kStatic>
struct FfdFused : FfdEvenDeal<T, D, kGroups, kBits, kLate> {
  using Step = FfdStep<T, D, kGroups, kBits>;
  using Scan = FfdScanStep<T, D, kGroups, kBits, kLate>;
  using Deal = FfdEvenDeal<T, D, kGroups, kBits, kLate>;
  using Deal::attend_balanced, Deal::base_of, Deal::store_list;
  using Step::await_query, Step::copy_query, Step::init_barriers, Step::p, Step::sh, Step::warp, Step::lane;
  using typename Scan::Ring;

  /// Masks of a segment, after `used` others in shared memory. A launch that only scans or only attends uses device
  /// memory.
  __device__ std::uint8_t* masks_of(const FfdSegment& s, int used) {
    if (p.phases == kFfdAllPhases && used + s.blocks <= kFfdSharedMasks) return sh.masks + used;
    return p.masks + base_of(s);
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
          if (p.phases & kFfdScanPhase) this->template scan_segment<false>(s, ring, masks, p.pair_kept + s.pair);
        }
        if (!balanced && threadIdx.x == 0) sh.part[parts] = {.segment = s, .masks = masks, .ctas = ctas_of(items, s)};
        __syncthreads();
        if (balanced) {
          if (threadIdx.x == 0) __stcg(p.pair_starts + blockIdx.x + s.pair, listed);
          listed = append_tiles(s, masks, this->list_at(base), listed, sh.reduction);
        } else {
          ++parts, used += s.blocks;
        }
        more = s.items_left > 0;
        if (more) next_segment(p, s);
      }
      issued = ring.issued;
      if (!balanced && (p.phases & kFfdRefinePhase))
#pragma unroll 1
        for (int i = 0; i < parts; ++i) this->template attend_part<FfdTiles::own>(sh.part[i], copies);
    }
    if (balanced) store_list(listed, base);
  }

  /// Maxima of all segments.
  __device__ void scan_maxima(const FfdItems& items) {
    FfdSegment s = first_segment(p, items, static_cast<int>(blockIdx.x), lane);
    Ring ring{s, warp};
    ring.segments = 1 << 30;
    for (;; next_segment(p, s)) {
      this->template scan_segment<false>(s, ring, nullptr, nullptr);
      __syncthreads();
      if (s.items_left == 0) return;
    }
  }

  __device__ void run() {
    if (warp == kFfdWarps - 1) prefetch_call(p, D, lane);
    init_barriers();
    const int cta = static_cast<int>(blockIdx.x);
    // The pair that a CTA most likely begins with: its queries are copied beside the lengths.
    const int likely = p.ctas_per_pair > 0 ? small_quotient(cta, p.ctas_per_pair) : static_cast<int>(p.pairs());
    wait_for_launch_before();
    if (kStatic) let_next_launch_begin();
    if (kStatic && likely < p.pairs()) copy_query(likely);
    const FfdItems items = deal_items(p, lane);
    const bool busy = cta < items.ctas;
    if (kStatic && !busy) return await_query();
    FfdSegment first;
    if (busy) first = first_segment(p, items, cta, lane);
    if (!kStatic && p.phases == kFfdMergePhase) {
      if (!busy) return;
      for (FfdSegment s = first;; next_segment(p, s)) {
        const int2 ctas = ctas_of(items, s);
        if (ctas.x == static_cast<int>(blockIdx.x)) {
          merge_partial<T, D>(p, s.pair, ctas.x, ctas.y, static_cast<int>(threadIdx.x));
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
  FfdFused<T, D, kGroups, kBits, kLate, kStatic>{
      {{{{p, *reinterpret_cast<FfdFusedShared<D, kGroups, kBits>*>(memory)}}}}}
      .run();
#endif
}

}  // namespace attest
