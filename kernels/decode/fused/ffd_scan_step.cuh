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
  using HalfPiece = FfdHalfPiece<D, kBits>;
  /// Of a CTA, about: with all tiles, calls that keep much took up to half longer.
  static constexpr int kFetchedTiles = 16;
  using Step::copy_query, Step::use_query, Step::residual_of, Step::values_of;

  /// The warp's copies of records, in the order of its entries over all segments of the CTA.
  struct Ring {
    FfdSegment segment;
    int entry, piece = 0;         ///< next to copy; entries are blocks of the segment
    int segments = kFfdMaxParts;  ///< to look at
    unsigned issued = 0, used = 0;
  };

  /// Copies the next piece, if there is one. kOne: s is the CTA's only segment, and the ring's is not used.
  template <bool kOne>
  __device__ void issue(Ring& ring, const FfdSegment& s) {
    if constexpr (!kOne)
      while (ring.entry >= ring.segment.blocks) {
        if (ring.segment.items_left == 0 || ring.segments == 1) return;
        --ring.segments;
        next_segment(p, ring.segment);
        ring.entry = warp;
      }
    const FfdSegment& from = kOne ? s : ring.segment;
    if (ring.entry >= from.blocks) return;
    if (elect_one()) {
      const unsigned stage = ring.issued % Shared::kScanStages;
      Pieces::load(sh.area[warp] + stage * Pieces::kStage, record(from.pair, from.block(ring.entry)), ring.piece,
                   &sh.scan_full[warp][stage], policy);
    }
    ++ring.issued;
    if (++ring.piece == Pieces::kPieces) ring.piece = 0, ring.entry += kFfdWarps;
  }

  /// Scores of the ring's next block. Each copy is issued as soon as its stage is free.
  template <bool kOne>
  __device__ void scan_block(FfdBlockScores<kGroups>& scores, Ring& ring, const FfdSegment& s) {
    FfdScaledQuery<D, kBits> scaled;
#pragma unroll 1
    for (int piece = 0; piece < Pieces::kPieces; ++piece) {
      issue<kOne>(ring, s);
      const unsigned stage = ring.used % Shared::kScanStages;
      wait_barrier(&sh.scan_full[warp][stage], ring.used / Shared::kScanStages & 1);
      scan_piece<D, kGroups, kBits>(scores, scaled, sh.area[warp] + stage * Pieces::kStage, piece, sh.query, lane);
      ++ring.used;
      __syncwarp();
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
  __device__ const std::uint8_t* record(int pair, std::int64_t block) const {
    return p.cache.records + (pair * p.max_blocks + block) * Layout::kRecord;
  }

  __device__ std::uint8_t* boundary_area() const { return sh.area[warp] + Shared::kScanBytes; }
  /// The first half piece of the sink and local blocks that is this warp's. They are dealt from the last warp on: it is
  /// the first that has no block of a short segment.
  __device__ int first_half() const { return kFfdWarps - 1 - warp; }

  /// Copies half piece i of the sink and local blocks for this warp.
  __device__ void load_boundary(const FfdSegment& s, const Boundary& boundary, int i) {
    if (i < boundary.blocks() * HalfPiece::kPerBlock)
      HalfPiece::load(boundary_area(), record(s.pair, boundary.block(i / HalfPiece::kPerBlock)),
                      i % HalfPiece::kPerBlock, lane);
  }

  /// sh.boundary_maxima from thumbnails; the first half piece of each warp is on its way. A tile for each warp would
  /// have all of them make scaled queries; a whole block would keep a warp for longer than its share of the segment.
  template <bool kOne>
  __device__ void boundary_maxima(const FfdSegment& s, const Boundary& boundary) {
    float maximum[kGroups];
#pragma unroll
    for (int columns = 0; columns < kGroups; ++columns) maximum[columns] = -INFINITY;
    const int halves = boundary.blocks() * HalfPiece::kPerBlock;
    if (!kOne || first_half() < halves) {  // of many segments, the branch would cost registers
#pragma unroll 1
      for (int i = first_half(); i < halves; i += kFfdWarps) {
        await_copies<0>();
        __syncwarp();
        HalfPiece::raise(maximum, boundary_area(), sh.query, lane);
        __syncwarp();
        load_boundary(s, boundary, i + kFfdWarps);
      }
#pragma unroll
      for (int columns = 0; columns < kGroups; ++columns)
#pragma unroll
        for (int o = 4; o < 32; o *= 2)
          maximum[columns] = fmaxf(maximum[columns], __shfl_xor_sync(~0u, maximum[columns], o));
      fence_bulk_copies();  // kept tiles are copied over these pieces
    }
#pragma unroll
    for (int columns = 0; columns < kGroups; ++columns)
      if (lane < 4) sh.boundary_maxima[warp][4 * columns + lane] = maximum[columns];
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
        float maximum = fmaxf(x[h][c], x[h][2 + c]) * p.options.scale;
#pragma unroll
        for (int o = 4; o < 32; o *= 2) maximum = fmaxf(maximum, __shfl_xor_sync(~0u, maximum, o));
        if (lane < 4) sh.boundary_maxima[warp][8 * h + 2 * lane + c] = wanted ? maximum : -INFINITY;
      }
  }

  /// What a score must reach.
  __device__ void set_thresholds(float (&threshold)[kGroups], float delta) {
#pragma unroll
    for (int columns = 0; columns < kGroups; ++columns) {
      const int head = 4 * columns + lane % 4;
      float maximum = fmaxf(sh.boundary_maxima[lane / 4][head], sh.boundary_maxima[lane / 4 + 8][head]);
#pragma unroll
      for (int o = 4; o < 32; o *= 2) maximum = fmaxf(maximum, __shfl_xor_sync(~0u, maximum, o));
      threshold[columns] = head < p.group ? maximum - delta : INFINITY;
    }
  }

  /// Brings kept tiles of a block, a bit for each, into the L2 cache, whoever attends them. Device memory is idle from
  /// the moment when the last records are there until tiles are copied.
  __device__ void fetch_tiles(std::int64_t first, unsigned mask) {
    int before = 0;
    if (lane == 0) before = atomicAdd(&sh.fetched, __popc(mask));
    if (__shfl_sync(~0u, before, 0) >= kFetchedTiles) return;
#pragma unroll 1
    for (; mask; mask &= mask - 1) {
      const std::int64_t tile = first + __ffs(static_cast<int>(mask)) - 1;
      prefetch_lines(residual_of(tile), Layout::kResidualTile, lane);
      prefetch_lines(values_of(tile), Layout::kValueTile, lane);
    }
  }

  /// Fills masks [s.blocks] and adds to `kept` the sub-blocks that are, or stores maxima. kOne: s is the CTA's only
  /// segment; a warp does not wait for other warps' sink and local blocks before its first block's scan. kTakes: a warp
  /// takes a kept tile of its last block, if there is one. It is returned, and in no mask; else kNone is. kFetches: a
  /// warp that has no more records to copy calls fetch_tiles().
  template <bool kOne, bool kTakes = false, bool kFetches = kOne && !kTakes>
  __device__ std::uint32_t scan_segment(const FfdSegment& s, Ring& ring, std::uint8_t* masks, int* kept) {
    std::uint32_t taken = FfdKeptTile::kNone;
    if (s.blocks == 0) return taken;
    // What is needed first is copied first. Further records come with the scan: an SM takes no more copies before some
    // have ended, and a warp that cannot hand over its own waits.
    copy_query(s.pair);
    const Boundary boundary(p.options, s);
    const bool by_thumbnails = !kLate && p.options.pseudo_max != FfdDecodePseudoMax::exact;
    float delta = 0;
    if constexpr (!kLate) delta = p.call.delta[s.kv_head];
    if (by_thumbnails) load_boundary(s, boundary, first_half());
#pragma unroll
    for (int i = 1; i < Shared::kScanStages; ++i)
      if (ring.issued < ring.used + i) issue<kOne>(ring, s);
    use_query(s.pair);
    float threshold[kGroups];
    if constexpr (!kLate) {
      if (by_thumbnails)
        boundary_maxima<kOne>(s, boundary);
      else
        exact_boundary_maxima(s);
      if constexpr (kOne) {
        __syncwarp();
        if (elect_one()) arrive(&sh.boundary_full);
      } else {
        __syncthreads();
        set_thresholds(threshold, delta);
      }
    }
    const auto scan = [&](int own, bool learns_thresholds) {
      FfdBlockScores<kGroups> scores;
      scan_block<kOne>(scores, ring, s);
      if (learns_thresholds) {
        wait_barrier(&sh.boundary_full, 0);
        set_thresholds(threshold, delta);
      }
      const std::int64_t at = s.pair * p.max_blocks + s.block(own);
      unsigned mask = 0xff;
      if constexpr (kLate) {
        const int per_block = kFfdBlock / p.options.sub_block;
        store_maxima(p.head_maxima ? p.head_maxima + at * per_block * p.group : nullptr,
                     p.maxima ? p.maxima + at * per_block : nullptr, scores, p.sub_tiles(), p.group, lane);
      } else {
        mask = kept_tiles(scores, threshold, p.sub_tiles());
        unsigned others = mask;
        if (kTakes && mask && own + kFfdWarps >= s.blocks) {
          taken = s.block(own) * kFfdTiles + __ffs(static_cast<int>(mask)) - 1;
          others &= others - 1;
        }
        if (kFetches && mask && ring.entry >= (kOne ? s : ring.segment).blocks) fetch_tiles(at * kFfdTiles, mask);
        if (lane == 0) {
          masks[own] = static_cast<std::uint8_t>(others);
          if (mask) atomicAdd(kept, __popc(mask) >> (31 - __clz(p.sub_tiles())));
        }
      }
      if (mask && p.scores) store_scores(p.scores + at * kFfdBlock * p.group, scores, mask, p.group, lane);
    };
    int own = warp;
    if constexpr (kOne) {
      if (own < s.blocks) scan(own, true);
      own += kFfdWarps;
    }
#pragma unroll 1
    for (; own < s.blocks; own += kFfdWarps) scan(own, false);
    return taken;
  }
};

}  // namespace attest
