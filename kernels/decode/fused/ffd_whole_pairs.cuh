// The fused decode of many sequences of one length: every CTA scans as many whole pairs, and kept tiles are dealt anew.
// The steps are those of ffd_fused.cuh.
#pragma once

#include "kernels/decode/fused/ffd_even_deal.cuh"

namespace attest {

template <class T, int D, int kGroups, int kBits>
struct FfdWholePairs : FfdEvenDeal<T, D, kGroups, kBits, false> {
  using Step = FfdStep<T, D, kGroups, kBits>;
  using Scan = FfdScanStep<T, D, kGroups, kBits, false>;
  using Step::copy_query, Step::init_barriers;
  using Step::p, Step::sh, Step::warp, Step::lane;
  using typename Scan::Ring;

  __device__ void run() {
    if (warp == kFfdWarps - 1) prefetch_call(p, D, lane);
    init_barriers();
    const int each = p.pairs_per_cta, pairs = static_cast<int>(p.pairs()), first = static_cast<int>(blockIdx.x) * each;
    wait_for_launch_before();
    if (first < pairs) list_pairs(first, min(each, pairs - first));
    FfdItems items;
    items.ctas = quotient(pairs + each - 1, each);
    items.pairs_each = each;
    grid_barrier(p.barrier);
    this->attend_balanced(items);
  }

 private:
  /// Scans pairs from the first on, and lists what is kept.
  __device__ void list_pairs(int first, int count) {
    copy_query(first);  // beside the length
    FfdSegment s = split_segment(p, first, 0, 1);
    s.items_left = 1 << 30;
    const unsigned base = this->base_of(s);
    Ring ring{s, warp};
    ring.segments = count;
    int listed = 0;
#pragma unroll 1
    for (int i = 0;;) {
      this->template scan_segment<false, false, true>(s, ring, sh.masks, p.pair_kept + s.pair);
      __syncthreads();
      if (threadIdx.x == 0) __stcg(p.pair_starts + blockIdx.x + s.pair, listed);
      listed = append_tiles(s, sh.masks, this->list_at(base), listed, sh.reduction);
      if (++i == count) break;
      next_segment(p, s);
    }
    this->store_list(listed, base);
  }
};

template <class T, int D, int kGroups, int kBits>
__global__ void __launch_bounds__(kFfdThreads, 1) ffd_whole_pairs_kernel(const __grid_constant__ FfdFusedParams p) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(128) std::uint8_t memory[];
  FfdWholePairs<T, D, kGroups, kBits>{{{{{p, *reinterpret_cast<FfdFusedShared<D, kGroups, kBits>*>(memory)}}}}}.run();
#endif
}

}  // namespace attest
