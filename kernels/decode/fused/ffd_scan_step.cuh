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
  using Step::load_query, Step::query_pair, Step::use_query;

  /// The warp's copies of records, in the order of its entries over all segments of the CTA.
  struct Ring {
    FfdSegment segment;
    int entry, piece = 0;         ///< next to copy; entries are blocks of the segment
    int segments = kFfdMaxParts;  ///< to look at
    unsigned issued = 0, used = 0;
  };

  __device__ bool issue(Ring& ring) {
    while (ring.entry >= ring.segment.blocks) {
      if (ring.segment.items_left == 0 || ring.segments == 1) return false;
      --ring.segments;
      next_segment(p, ring.segment);
      ring.entry = warp;
    }
    if (lane == 0) {
      const unsigned stage = ring.issued % Shared::kScanStages;
      const std::int64_t block = ring.segment.pair * p.max_blocks + ring.segment.block(ring.entry);
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

  /// Sink and local blocks of a pair.
  struct Boundary {
    int sinks, locals, full;
    __device__ Boundary(const FfdDecodeOptions& options, const FfdSegment& s)
        : sinks(min(options.sink_blocks, s.full)), locals(min(options.local_blocks, s.full - sinks)), full(s.full) {}
    __device__ int blocks() const { return sinks + locals; }
    __device__ int block(int i) const { return i < sinks ? i : full - blocks() + i; }
  };
  __device__ const std::uint8_t* record(const FfdSegment& s, int block) const {
    return p.cache.records + (s.pair * p.max_blocks + block) * Layout::kRecord;
  }

  /// Brings the records of sink and local blocks into the L2 cache.
  __device__ void prefetch_boundary(const FfdSegment& s) const {
    const Boundary boundary(p.options, s);
    if (warp >= boundary.blocks()) return;
    for (int at = 128 * lane; at < Layout::kRecord; at += 128 * 32) prefetch_line(record(s, boundary.block(warp)) + at);
  }

  /// sh.boundary_maxima from thumbnails. The tiles are dealt to all warps: a whole block would keep a warp for longer
  /// than its share of the segment.
  __device__ void boundary_maxima(const FfdSegment& s) {
    const Boundary boundary(p.options, s);
    float most[kGroups];
#pragma unroll
    for (int columns = 0; columns < kGroups; ++columns) most[columns] = -INFINITY;
#pragma unroll 1
    for (int i = warp; i < boundary.blocks() * kFfdTiles; i += kFfdWarps)
      raise_to_tile<D, kGroups, kBits>(most, record(s, boundary.block(i / kFfdTiles)), i % kFfdTiles, sh.query, lane);
#pragma unroll
    for (int columns = 0; columns < kGroups; ++columns) {
#pragma unroll
      for (int o = 4; o < 32; o *= 2) most[columns] = fmaxf(most[columns], __shfl_xor_sync(~0u, most[columns], o));
      if (lane < 4) sh.boundary_maxima[warp][4 * columns + lane] = most[columns];
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

  /// What a score must reach.
  __device__ void set_thresholds(float (&threshold)[kGroups], const FfdSegment& s) {
    const float delta = p.call.delta[s.kv_head];
#pragma unroll
    for (int columns = 0; columns < kGroups; ++columns) {
      const int head = 4 * columns + lane % 4;
      float most = -INFINITY;
      for (int w = 0; w < kFfdWarps; ++w) most = fmaxf(most, sh.boundary_maxima[w][head]);
      threshold[columns] = head < p.group ? most - delta : INFINITY;
    }
  }

  /// Fills masks [s.blocks] and adds to `kept` the sub-blocks that are, or stores maxima.
  __device__ void scan_segment(const FfdSegment& s, Ring& ring, std::uint8_t* masks, int* kept) {
    if (s.blocks == 0) return;
    auto task = load_query(s.pair);
    if (ring.issued == ring.used) issue(ring);
    if (!kLate && query_pair != s.pair) prefetch_boundary(s);
    use_query(s.pair, task);
    // The first copy of each warp is under way, and the queries did not have to wait behind more.
#pragma unroll 1
    while (ring.issued < ring.used + Shared::kScanStages && issue(ring)) {
    }
    float threshold[kGroups];
    if constexpr (!kLate) {
      if (p.options.pseudo_max == FfdDecodePseudoMax::exact)
        exact_boundary_maxima(s);
      else
        boundary_maxima(s);
      __syncthreads();
      set_thresholds(threshold, s);
    }
#pragma unroll 1
    for (int own = warp; own < s.blocks; own += kFfdWarps) {
      FfdBlockScores<kGroups> scores;
      scan_block(scores, ring);
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
          if (mask) atomicAdd(kept, __popc(mask) / p.sub_tiles());
        }
      }
      if (p.scores) store_scores(p.scores + at * kFfdBlock * p.group, scores, mask, p.group, lane);
    }
  }
};

}  // namespace attest
