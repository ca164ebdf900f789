// A CTA that has one segment: the kernels in which whole CTAs are dealt to pairs, whose code is shorter than that of
// any number of segments, and takes fewer registers.
#pragma once

#include "kernels/decode/fused/ffd_even_deal.cuh"

namespace attest {

template <class T, int D, int kGroups, int kBits>
struct FfdOneSegment : FfdEvenDeal<T, D, kGroups, kBits, false> {
  using Step = FfdStep<T, D, kGroups, kBits>;
  using Scan = FfdScanStep<T, D, kGroups, kBits, false>;
  using Attend = FfdAttendStep<T, D, kGroups, kBits, false>;
  using Attend::kNoTile, Attend::load_tile;
  using Step::kHalves, Step::p, Step::sh, Step::warp, Step::lane;
  using typename Attend::Cursor;
  using typename Scan::Ring;

  /// Scans s, adds what is kept to `kept`, and attends it. s has at most kFfdSharedMasks blocks. kTakes: the first tile
  /// of a warp is copied while other warps still scan. That shortens a call of few blocks, where it does not keep
  /// copies of records waiting.
  template <bool kTakes>
  __device__ void run_segment(FfdAttention<T, D, kHalves>& state, const FfdSegment& s, int* kept) {
    Ring ring{{}, warp};
    const std::uint32_t taken = this->template scan_segment<true, kTakes>(s, ring, sh.masks, kept);
    if (kTakes && lane == 0) sh.has_taken[warp] = taken != kNoTile;
    __syncwarp();
    if (elect_one()) {
      arrive(&sh.scanned);
      if (taken != kNoTile) load_tile(s.pair * p.max_blocks * kFfdTiles + taken, 0);
    }
    wait_barrier(&sh.scanned, 0);
    unsigned copies = 0;
    this->template attend<FfdTiles::own>(state, {.segment = s, .masks = sh.masks}, cursor<kTakes>(taken != kNoTile),
                                         copies, taken);
  }

  /// Scans s, adds what is kept to `kept`, lists it, and waits for all other CTAs' lists.
  __device__ void list_and_meet(const FfdSegment& s, int* kept) {
    Ring ring{{}, warp};
    this->template scan_segment<true>(s, ring, sh.masks, kept);
    __syncthreads();
    const unsigned base = this->base_of(s);
    const int listed = append_tiles(s, sh.masks, this->list_at(base), 0, sh.reduction);
    this->store_list(listed, base);
    grid_barrier(p.barrier, [&] { this->prefetch_listed(listed, base); });
  }

 private:
  /// Warps that have taken a tile let the others go first.
  template <bool kTakes>
  __device__ Cursor cursor(bool has_taken) const {
    if constexpr (!kTakes) return {warp, warp + kFfdWarps};
    const unsigned others = __ballot_sync(~0u, lane < kFfdWarps && !sh.has_taken[lane % kFfdWarps]);
    const int next = __popc(others) + warp;
    if (has_taken) return {next, next + kFfdWarps};
    return {__popc(others & ((1u << warp) - 1)), next};
  }
};

}  // namespace attest
