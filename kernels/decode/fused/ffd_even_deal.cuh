// The even deal of kept tiles: every CTA lists what it has kept, and after a barrier of the grid attends an even share
// of all lists.
#pragma once

#include "kernels/decode/fused/ffd_attend_step.cuh"

namespace attest {

template <class T, int D, int kGroups, int kBits, bool kLate>
struct FfdEvenDeal : FfdAttendStep<T, D, kGroups, kBits, kLate> {
  using Step = FfdStep<T, D, kGroups, kBits>;
  using Attend = FfdAttendStep<T, D, kGroups, kBits, kLate>;
  using Attend::listed_tile;
  using Step::p, Step::sh, Step::lane;

  /// Where a segment's masks begin, and an eighth of where its kept tiles do. Segments without splits lie next to each
  /// other; with splits, each CTA of a pair has a share.
  __device__ unsigned base_of(const FfdSegment& s) const {
    const int before = s.step == 1 ? s.first : s.first * ((s.full + s.step) / s.step);
    return static_cast<unsigned>(s.pair * p.max_masks + before);
  }

  /// How many tiles the CTA has listed, and where.
  __device__ void store_list(int listed, unsigned base) const {
    if (threadIdx.x != 0) return;
    __stcg(p.tile_counts + blockIdx.x, listed);
    __stcg(p.tile_bases + blockIdx.x, base);
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
      this->template attend_part<FfdTiles::listed>(part, copies);
      i = to, start = next;
    }
  }
};

}  // namespace attest
