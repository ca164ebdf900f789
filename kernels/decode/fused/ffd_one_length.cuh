// The fused decode of sequences of one length: every pair has CTAs of its own, whose partial results meet in device
// memory. The steps are those of ffd_fused.cuh.
#pragma once

#include "kernels/decode/fused/ffd_one_segment.cuh"

namespace attest {

/// kBalanced: all pairs have as many CTAs, and kept tiles are dealt anew; the deal is not used.
template <class T, int D, int kGroups, int kBits, bool kBalanced>
struct FfdOneLength : FfdOneSegment<T, D, kGroups, kBits> {
  using Step = FfdStep<T, D, kGroups, kBits>;
  using Step::copy_query, Step::init_barriers;
  using Step::kHalves, Step::p, Step::sh, Step::warp, Step::lane;

  __device__ void run(const FfdDeal& deal) {
    const int cta = static_cast<int>(blockIdx.x);
    int pair = 0, first = 0, splits = p.ctas_per_pair;
    bool busy = false;
    if constexpr (kBalanced) {
      pair = small_quotient(cta, splits), first = pair * splits;
      busy = pair < p.pairs();
    } else {
      const FfdDeal::Share own = deal.of_cta[cta];
      pair = own.pair, first = own.first, splits = own.last - own.first + 1;
      busy = cta < deal.ctas;
    }
    if (busy && warp == kFfdWarps - 1) prefetch_pair<D>(p, pair, lane);
    init_barriers();
    wait_for_launch_before();
    if (!kBalanced) let_next_launch_begin();
    if (busy) {
      copy_query(pair);  // beside the lengths
      const FfdSegment s = split_segment(p, pair, cta - first, splits);
      if constexpr (kBalanced) {
        this->list_and_meet(s, p.pair_kept + pair);
      } else {
        FfdAttention<T, D, kHalves> state;
        const unsigned tiles = this->template run_segment<true>(state, s, p.pair_kept + pair);
        merge_warps<T, D, kHalves, true>(p, sh.merge, state, sh.area[0], Step::Shared::kArea, pair, first,
                                         first + splits - 1);
        this->discard_if_many(s, tiles);
      }
    }
    if constexpr (kBalanced) {
      if (!busy) grid_barrier(p.barrier);
      FfdItems items;
      items.ctas = static_cast<int>(p.pairs()) * splits;
      items.splits = splits;
      this->attend_balanced(items);
    }
  }
};

template <class T, int D, int kGroups, int kBits, bool kBalanced>
__global__ void __launch_bounds__(kFfdThreads, 1)
    ffd_one_length_kernel(const __grid_constant__ FfdFusedParams p, const __grid_constant__ FfdDeal deal) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(128) std::uint8_t memory[];
  FfdOneLength<T, D, kGroups, kBits, kBalanced>{
      {{{{{p, *reinterpret_cast<FfdFusedShared<D, kGroups, kBits>*>(memory)}}}}}}
      .run(deal);
#endif
}

}  // namespace attest
