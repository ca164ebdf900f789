// The scan of a CTA's segments: a ring of records for each warp, the pseudo-max, and what is kept.
#pragma once

#include "kernels/decode/fused/ffd_fused_shared.cuh"

namespace attest {

/// kLate: the decision needs the maxima of all blocks (FfdFusedParams::decides_late()).
template <class T, int D, int kGroups, int kBits, bool kLate>
struct FfdScanStep : FfdStep<T, D, kGroups, kBits> {
  using Step = FfdStep<T, D, kGroups, kBits>;
  using Shared = typename Step::Shared;
  using Layout = typename Step::Layout;
  using Pieces = typename Step::Pieces;
  using Step::kHalves, Step::p, Step::sh, Step::warp, Step::lane, Step::policy;
  using Step::load_query, Step::use_query;

  /// The warp's copies of records, in the order of its entries over all segments of the CTA.
  struct Ring {
    FfdSegment segment;
    FfdEntries entries;
    int entry, piece = 0;
    int segments = kFfdMaxParts;  ///< to look at
    unsigned issued = 0, used = 0;
  };

  __device__ bool issue(Ring& ring) {
    while (ring.entry >= ring.entries.count) {
      if (ring.segment.items_left == 0 || ring.segments == 1) return false;
      --ring.segments;
      next_segment(p, ring.segment);
      ring.entry = warp;
      ring.entries = FfdEntries(p, ring.segment);
    }
    if (lane == 0) {
      const unsigned stage = ring.issued % Shared::kScanStages;
      const std::int64_t block = ring.segment.pair * p.max_blocks + ring.entries.block(ring.segment, ring.entry);
      Pieces::load(sh.area[warp] + stage * Pieces::kStage, p.cache.records + block * Layout::kRecord, ring.piece,
                   &sh.scan_full[warp][stage], policy);
    }
    ++ring.issued;
    if (++ring.piece == Pieces::kPieces) ring.piece = 0, ring.entry += kFfdWarps;
    return true;
  }

  __device__ void scan_block(FfdBlockScores<kGroups>& scores, Ring& ring) {
    FfdScaledQuery<D, kBits> scaled;
    float unit = 0;
#pragma unroll 1
    for (int piece = 0; piece < Pieces::kPieces; ++piece) {
      const unsigned stage = ring.used % Shared::kScanStages;
      wait_barrier(&sh.scan_full[warp][stage], ring.used / Shared::kScanStages & 1);
      scan_piece<D, kGroups, kBits>(scores, scaled, unit, sh.area[warp] + stage * Pieces::kStage, piece, sh.query,
                                    lane);
      ++ring.used;
      __syncwarp();
      issue(ring);
    }
  }

  /// sh.boundary_maxima from 16-bit keys: a tile of the first or last full block for each warp.
  __device__ void exact_boundary_maxima(const FfdSegment& s) {
    const int block = warp < kFfdTiles ? 0 : s.full - 1;
    const bool wanted = s.full > 0 && (warp < kFfdTiles ? p.options.sink_blocks > 0 : p.options.local_blocks > 0);
    const T* keys = warp < kFfdTiles
                        ? static_cast<const T*>(p.cache.sink_keys) + static_cast<std::int64_t>(s.pair) * kFfdBlock * D
                        : static_cast<const T*>(p.cache.last_keys) +
                              (static_cast<std::int64_t>(s.pair) * 2 + block % 2) * kFfdBlock * D;
    float x[kHalves][4];
    multiply_keys<T, D, kGroups>(x, sh.query, keys + warp % kFfdTiles * kFfdTile * D, lane);
#pragma unroll
    for (int h = 0; h < kHalves; ++h)
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        float most = fmaxf(x[h][c], x[h][2 + c]) * p.options.scale;
#pragma unroll
        for (int o = 4; o < 32; o *= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, o));
        if (lane < 4) sh.boundary_maxima[warp][8 * h + 2 * lane + c] = wanted ? most : -INFINITY;
      }
  }

  /// What a score must reach, from the first `rows` rows of sh.boundary_maxima.
  __device__ void set_thresholds(float (&threshold)[kGroups], const FfdSegment& s, int rows) {
    const float delta = p.call.delta[s.kv_head];
#pragma unroll
    for (int columns = 0; columns < kGroups; ++columns) {
      const int head = 4 * columns + lane % 4;
      float most = -INFINITY;
      for (int e = 0; e < rows; ++e) most = fmaxf(most, sh.boundary_maxima[e][head]);
      threshold[columns] = head < p.group ? most - delta : INFINITY;
    }
  }

  /// Fills masks [s.blocks], or stores maxima.
  __device__ void scan_segment(const FfdSegment& s, Ring& ring, std::uint8_t* masks) {
    if (s.blocks == 0) return;
    auto task = load_query(s.pair);
    if (ring.issued == ring.used) issue(ring);
    use_query(s.pair, task);
    // The first copy of each warp is under way, and the queries did not have to wait behind more.
#pragma unroll 1
    while (ring.issued < ring.used + Shared::kScanStages && issue(ring)) {
    }
    const FfdEntries entries(p, s);
    float threshold[kGroups];
    if (!kLate && p.options.pseudo_max == FfdDecodePseudoMax::exact) {
      exact_boundary_maxima(s);
      __syncthreads();
      set_thresholds(threshold, s, 16);
    } else if (entries.boundary == 0) {
      set_thresholds(threshold, s, 0);
    }
#pragma unroll 1
    for (int e = warp;; e += kFfdWarps) {
      const bool there = e < entries.count;
      FfdBlockScores<kGroups> scores;
      if (there) scan_block(scores, ring);
      if (e == warp && entries.boundary > 0) {
        if (e < entries.boundary) {
          float most[kGroups];
          block_maxima(most, scores);
          if (lane < 4)
#pragma unroll
            for (int columns = 0; columns < kGroups; ++columns)
              sh.boundary_maxima[e][4 * columns + lane] = most[columns];
        }
        __syncthreads();
        set_thresholds(threshold, s, entries.boundary);
      }
      if (!there) break;
      const int own = entries.own(s, e);
      if (own < 0) continue;
      const std::int64_t at = s.pair * p.max_blocks + s.block(own);
      unsigned mask = 0xff;
      if constexpr (kLate) {
        const int per_block = kFfdBlock / p.options.sub_block;
        store_maxima(p.head_maxima ? p.head_maxima + at * per_block * p.group : nullptr,
                     p.maxima ? p.maxima + at * per_block : nullptr, scores, p.sub_tiles(), p.group, lane);
      } else {
        mask = kept_tiles(scores, threshold, p.sub_tiles());
        if (lane == 0) {
          masks[own] = static_cast<std::uint8_t>(mask);
          if (mask) atomicAdd(p.pair_kept + s.pair, __popc(mask) / p.sub_tiles());
        }
      }
      if (p.scores) store_scores(p.scores + at * kFfdBlock * p.group, scores, mask, p.group, lane);
    }
  }
};

}  // namespace attest
