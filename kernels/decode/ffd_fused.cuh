// The fused decode kernel: one CTA of 16 warps per multiprocessor, in three steps.
//
// 1. Scan. A pair's blocks are dealt in turn to its CTAs, and a CTA's blocks to its warps. Each warp keeps its own ring
// of records in flight,
//    so that warps do not wait for each other. Every CTA finds the pseudo-max itself, from the sink and local blocks.
// 2. Refinement. The tiles that a CTA kept are dealt to its warps, which copy residuals and values through the same
// memory.
// 3. Merge, of warps in shared memory and of CTAs by the last that arrives, in order.
#pragma once

#include <algorithm>

#include "kernels/decode/ffd_merge.cuh"
#include "kernels/decode/ffd_scan.cuh"
#include "kernels/decode/ffd_select.cuh"

namespace attest {

inline constexpr int kFfdMostEnds = 8;        ///< sink and local blocks
inline constexpr int kFfdMostParts = 32;      ///< segments between refinements
inline constexpr int kFfdSharedMasks = 2048;  ///< blocks whose masks fit into shared memory

/// What a CTA attends of one pair: the kept tiles of a segment, or units that were dealt to it.
struct FfdPart {
  FfdSegment segment;
  const std::uint8_t* masks = nullptr;  ///< [segment.blocks] a bit per kept tile; null: units
  int begin = 0, end = 0;               ///< of all units
  int2 ctas = {0, 0};                   ///< first and last that attend some of the pair
};

template <int D, int kGroups, int kBits>
struct FfdFusedShared {
  using Layout = FfdFragments<D, kBits>;
  using Pieces = FfdPieces<D, kBits>;
  static constexpr int kScanStages = D == 64 ? 4 : 2;
  static constexpr int kUnitStages = kGroups == 1 ? 2 : 1;
  static constexpr int kUnitBytes = Layout::kResidualTile + Layout::kValueTile;
  static constexpr int kStateBytes = 4 * kGroups * D * 4;
  static constexpr int kArea =
      (std::max(std::max(kScanStages * Pieces::kStage, kUnitStages* kUnitBytes), kStateBytes) + 127) / 128 * 128;

  alignas(128) std::uint8_t area[kFfdWarps][kArea];
  FfdQueryFragments<D, kGroups> query;
  std::uint64_t scan_full[kFfdWarps][kScanStages], unit_full[kFfdWarps][kUnitStages];
  FfdReduction reduction;
  FfdMerge merge;
  float ends[16][16];                             ///< [sink or local block, or tile of them][head] largest score
  std::uint32_t waiting[kFfdWarps][kUnitStages];  ///< units whose copies are under way
  FfdPart part[kFfdMostParts];
  std::uint8_t masks[kFfdSharedMasks];
  int cta_units[kFfdMostCtas + 1];   ///< units in the lists of all CTAs before
  unsigned cta_bases[kFfdMostCtas];  ///< FfdFusedParams::unit_bases
};

/// Blocks that a segment's scan looks at, in the warps' order: sink and local blocks of the pair, then the segment's
/// others.
struct FfdEntries {
  int sinks = 0, local_from = 0, ends = 0, low = 0, count = 0;

  FfdEntries() = default;
  __device__ FfdEntries(const FfdFusedParams& p, const FfdSegment& s) {
    if (s.blocks == 0) return;
    int high = s.blocks;
    if (!p.decides_late() && p.options.pseudo_max == FfdReference::thumbnail) {
      sinks = min(p.options.sink_blocks, s.full);
      const int locals = min(p.options.local_blocks, s.full - sinks);
      local_from = s.full - locals;
      ends = sinks + locals;
      low = s.blocks_before(sinks);
      high = s.blocks_before(local_from);
    }
    count = ends + max(0, high - low);
  }
  __device__ int block(const FfdSegment& s, int e) const {
    return e < sinks ? e : e < ends ? local_from + e - sinks : s.block(low + e - ends);
  }
  /// Index of the entry's block among the segment's, or -1.
  __device__ int own(const FfdSegment& s, int e) const {
    if (e >= ends) return low + e - ends;
    const int i = s.blocks_before(block(s, e));
    return i < s.blocks && s.block(i) == block(s, e) ? i : -1;
  }
};

/// kLate: the decision needs the maxima of all blocks (FfdFusedParams::decides_late()).
template <class T, int D, int kGroups, int kBits, bool kLate>
struct FfdFused {
  using Shared = FfdFusedShared<D, kGroups, kBits>;
  using Layout = FfdFragments<D, kBits>;
  using Pieces = FfdPieces<D, kBits>;
  static constexpr int kHalves = (kGroups + 1) / 2;

  const FfdFusedParams& p;
  Shared& sh;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const std::uint64_t policy = read_once_policy();
  int query_pair = -1;  ///< whose queries are in sh.query

  __device__ const T* query_of(int pair) const {
    return static_cast<const T*>(p.call.q) + static_cast<std::int64_t>(pair) * p.group * D;
  }
  using QueryTask = FfdQueryTask<T, D, kGroups>;
  __device__ QueryTask load_query(int pair) const {
    QueryTask task{};
    if (warp < QueryTask::kTasks && pair != query_pair) task.load(query_of(pair), p.group, warp, lane);
    return task;
  }
  /// The queries that were used before are no longer read by any thread.
  __device__ void use_query(int pair, QueryTask& task) {
    if (pair == query_pair) return;
    query_pair = pair;
    make_query_fragments<T, D, kGroups, kBits>(sh.query, task, query_of(pair), p.group, p.options.scale, warp, lane);
  }

  /// The warp's copies of records, in the order of its entries over all segments of the CTA.
  struct Ring {
    FfdSegment segment;
    FfdEntries entries;
    int entry, piece = 0;
    int segments = kFfdMostParts;  ///< to look at
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

  /// sh.ends from 16-bit keys: a tile of the first or last full block for each warp.
  __device__ void exact_ends(const FfdSegment& s) {
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
        if (lane < 4) sh.ends[warp][8 * h + 2 * lane + c] = wanted ? most : -INFINITY;
      }
  }

  /// What a score must reach, from the first `ends` rows of sh.ends.
  __device__ void set_thresholds(float (&threshold)[kGroups], const FfdSegment& s, int ends) {
    const float delta = p.call.delta[s.kv_head];
#pragma unroll
    for (int columns = 0; columns < kGroups; ++columns) {
      const int head = 4 * columns + lane % 4;
      float most = -INFINITY;
      for (int e = 0; e < ends; ++e) most = fmaxf(most, sh.ends[e][head]);
      threshold[columns] = head < p.group ? most - delta : INFINITY;
    }
  }

  /// Fills masks [s.blocks], or stores maxima.
  __device__ void scan_segment(const FfdSegment& s, Ring& ring, std::uint8_t* masks) {
    if (s.blocks == 0) return;
    QueryTask task = load_query(s.pair);
    if (ring.issued == ring.used) issue(ring);
    use_query(s.pair, task);
    // The first copy of each warp is under way, and the queries did not have to wait behind more.
#pragma unroll 1
    while (ring.issued < ring.used + Shared::kScanStages && issue(ring)) {
    }
    const FfdEntries entries(p, s);
    float threshold[kGroups];
    if (!kLate && p.options.pseudo_max == FfdReference::exact) {
      exact_ends(s);
      __syncthreads();
      set_thresholds(threshold, s, 16);
    } else if (entries.ends == 0) {
      set_thresholds(threshold, s, 0);
    }
#pragma unroll 1
    for (int e = warp;; e += kFfdWarps) {
      const bool there = e < entries.count;
      FfdBlockScores<kGroups> scores;
      if (there) scan_block(scores, ring);
      if (e == warp && entries.ends > 0) {
        if (e < entries.ends) {
          float most[kGroups];
          block_maxima(most, scores);
          if (lane < 4)
#pragma unroll
            for (int columns = 0; columns < kGroups; ++columns) sh.ends[e][4 * columns + lane] = most[columns];
        }
        __syncthreads();
        set_thresholds(threshold, s, entries.ends);
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

  /// What a warp attends: tile of the pair, or kTail + tile of its tail.
  static constexpr std::uint32_t kTail = FfdUnit::kTail, kNoTile = FfdUnit::kNone;

  /// The first of the warp's tiles from `i` on, which counts on.
  __device__ std::uint32_t next_tile(const FfdPart& part, int& i) const {
    if (!part.masks) {
      const int at = i;
      i += kFfdWarps;
      return at < part.end ? listed_unit(at).tile : kNoTile;
    }
    const int tiles = part.segment.blocks * kFfdTiles;
#pragma unroll 1
    for (;;) {
      const int at = i;
      i += kFfdWarps;
      if (at >= tiles) return at < tiles + part.segment.tail_tiles() ? kTail + (at - tiles) : kNoTile;
      if (part.masks[at / kFfdTiles] >> (at % kFfdTiles) & 1)
        return part.segment.block(at / kFfdTiles) * kFfdTiles + at % kFfdTiles;
    }
  }

  /// Attends the kept tiles of a part.
  __device__ void attend(FfdAttention<T, D, kHalves>& state, const FfdPart& part, unsigned& copies) {
    constexpr int kStages = Shared::kUnitStages;
    state.clear();
    const int pair = part.segment.pair;
    const std::int64_t pair_tiles = pair * p.max_blocks * kFfdTiles;
    int at = part.begin + warp;
    std::uint32_t next = next_tile(part, at);
    QueryTask task = load_query(pair);
    unsigned issued = copies;
#pragma unroll 1
    for (int i = -kStages;; ++i) {
      if (i >= 0) {
        const std::uint32_t tile = sh.waiting[warp][i % kStages];
        if (tile == kNoTile) break;
        float x[kHalves][4];
        const uint4* values;
        if (tile & kTail) {
          values = score_tail(x, part.segment, static_cast<int>(tile & ~kTail));
        } else {
          const unsigned stage = copies % kStages;
          load_scores(x, p.scores + (pair_tiles + tile) * kFfdTile * p.group, p.group, lane);
          wait_barrier(&sh.unit_full[warp][stage], copies / kStages & 1);
          const std::uint8_t* area = sh.area[warp] + stage * Shared::kUnitBytes;
          add_residual<D, kGroups>(x, sh.query, area, lane);
          values = reinterpret_cast<const uint4*>(area + Layout::kResidualTile);
          ++copies;
        }
        state.add(x, values, lane);
        __syncwarp();
      }
      const bool copied = !(next & kTail);
      if (lane == 0) {
        sh.waiting[warp][(i + kStages) % kStages] = next;
        if (copied) load_unit(pair_tiles + next, issued % kStages);
      }
      issued += copied;
      if (next != kNoTile) next = next_tile(part, at);
      __syncwarp();
      if (i == -1) use_query(pair, task);
    }
  }

  /// One thread.
  __device__ void load_unit(std::int64_t tile, unsigned stage) {
    std::uint8_t* to = sh.area[warp] + stage * Shared::kUnitBytes;
    std::uint64_t* barrier = &sh.unit_full[warp][stage];
    expect_bytes(barrier, Layout::kResidualTile + Layout::kValueTile);
    bulk_copy(to, p.cache.residual + tile * Layout::kResidualTile, Layout::kResidualTile, barrier, policy);
    to += Layout::kResidualTile;
    bulk_copy(to, static_cast<const std::uint8_t*>(p.cache.values) + tile * Layout::kValueTile, Layout::kValueTile,
              barrier, policy);
  }

  /// Scores of a tile of the tail; returns its values. Rows that are not there have no weight, and their values are
  /// zeros.
  __device__ const uint4* score_tail(float (&x)[kHalves][4], const FfdSegment& s, int tile) {
    const int tokens = s.tail_tokens() - tile * kFfdTile;
    const std::int64_t at = static_cast<std::int64_t>(s.pair) * kFfdBlock * D + tile * kFfdTile * D;
    const std::int64_t keys =
        (static_cast<std::int64_t>(s.pair) * 2 + s.full % 2) * kFfdBlock * D + tile * kFfdTile * D;
    tail_scores<T, D, kGroups>(x, sh.query, static_cast<const T*>(p.cache.last_keys) + keys, tokens, p.options.scale,
                               p.group, lane);
    return reinterpret_cast<const uint4*>(static_cast<const T*>(p.cache.tail_values) + at);
  }

  /// Masks of a segment, after `used` others in shared memory. A launch that only scans or only attends uses device
  /// memory.
  __device__ std::uint8_t* masks_of(const FfdSegment& s, int used) {
    if (p.phases == kFfdAllPhases && used + s.blocks <= kFfdSharedMasks) return sh.masks + used;
    return p.masks + base_of(s);
  }
  /// Where a segment's masks begin, and an eighth of where its units do: those of segments without splits lie next to
  /// each other; a pair's CTAs have a share each otherwise.
  __device__ unsigned base_of(const FfdSegment& s) const {
    const int before = s.step == 1 ? s.first : s.first * ((s.full + s.step) / s.step);
    return static_cast<unsigned>(s.pair * p.max_masks + before);
  }

  __device__ void attend_part(const FfdPart& part, unsigned& copies) {
    FfdAttention<T, D, kHalves> state;
    attend(state, part, copies);
    merge_warps<T, D, kHalves>(p, sh.merge, state, sh.area[0], Shared::kArea, part.segment.pair, part.ctas.x,
                               part.ctas.y);
    __syncthreads();  // the areas are read
    fence_bulk_copies();
  }

  /// The CTA's segments, at most kFfdMostParts at a time, or the lists of all their units.
  __device__ void run_segments(const FfdItems& items, bool deals) {
    unsigned issued = 0, copies = 0;
    int listed = 0;
    FfdSegment s = first_segment(p, items, static_cast<int>(blockIdx.x), lane);
    const unsigned base = base_of(s);
    for (bool more = true; more;) {
      Ring ring{s, FfdEntries(p, s), warp};
      ring.issued = ring.used = issued;
      if (deals) ring.segments = 1 << 30;
      int parts = 0, used = 0;
#pragma unroll 1
      while (more && parts < kFfdMostParts) {
        std::uint8_t* masks = masks_of(s, used);
        if constexpr (kLate) {
          if (p.phases & kFfdSelectPhase) decide_late(p, s, masks, sh.reduction);
        } else {
          if (p.phases & kFfdScanPhase) scan_segment(s, ring, masks);
        }
        if (!deals && threadIdx.x == 0) sh.part[parts] = {.segment = s, .masks = masks, .ctas = ctas_of(items, s)};
        __syncthreads();
        if (deals) {
          if (threadIdx.x == 0) __stcg(p.pair_starts + blockIdx.x + s.pair, listed);
          listed = append_units(s, masks, p.units + std::int64_t{8} * base, listed, sh.reduction);
        } else {
          ++parts, used += s.blocks;
        }
        more = s.items_left > 0;
        if (more) next_segment(p, s);
      }
      issued = ring.issued;
      if (!deals && (p.phases & kFfdRefinePhase))
#pragma unroll 1
        for (int i = 0; i < parts; ++i) attend_part(sh.part[i], copies);
    }
    if (deals && threadIdx.x == 0) {
      __stcg(p.unit_counts + blockIdx.x, listed);
      __stcg(p.unit_bases + blockIdx.x, base);
    }
  }

  /// The CTA that listed unit u: the last whose units begin at or before u.
  __device__ int lister_of(int u) const {
    int low = 0, high = static_cast<int>(gridDim.x);
#pragma unroll 1
    while (low + 1 < high) {
      const int middle = (low + high) / 2;
      (sh.cta_units[middle] <= u ? low : high) = middle;
    }
    return low;
  }
  __device__ FfdUnit listed_unit(int u) const {
    const int cta = lister_of(u);
    const FfdUnit* unit = p.units + std::int64_t{8} * sh.cta_bases[cta] + (u - sh.cta_units[cta]);
    const uint2 words = __ldcg(reinterpret_cast<const uint2*>(unit));
    return {words.x, words.y};
  }
  /// Where the pair's units begin among all.
  __device__ int first_unit_of(const FfdItems& items, const FfdSegment& s) const {
    const int cta = ctas_of(items, s).x;
    return sh.cta_units[cta] + (items.splits > 0 ? 0 : __ldcg(p.pair_starts + cta + s.pair));
  }

  /// Attends the CTA's share of the units of all lists.
  __device__ void attend_dealt(const FfdItems& items) {
    const int ctas = static_cast<int>(gridDim.x), cta = static_cast<int>(threadIdx.x);
    const bool lists = cta < items.ctas;
    int total;
    const int before = cta_prefix(lists ? __ldcg(p.unit_counts + cta) : 0, total, sh.reduction);
    if (cta <= ctas) sh.cta_units[cta] = before;
    if (lists) sh.cta_bases[cta] = __ldcg(p.unit_bases + cta);
    __syncthreads();
    const int workers = min(ctas, total);
    if (static_cast<int>(blockIdx.x) >= workers) return;
    const FfdShares shares(total, workers);
    int u = shares.begin(static_cast<int>(blockIdx.x));
    const int end = shares.begin(static_cast<int>(blockIdx.x) + 1);
    FfdSegment s = whole_pair(p, static_cast<int>(listed_unit(u).pair), lane);
    int start = first_unit_of(items, s);
    unsigned copies = 0;
#pragma unroll 1
    while (u < end) {
      const FfdSegment own = s;
      int next = total;
      if (s.pair + 1 < p.pairs()) {
        next_segment(p, s);
        next = first_unit_of(items, s);
      }
      const int to = min(end, next);
      // Each thread has its own copy: the others may still look at the part before.
      const FfdPart part{
          .segment = own, .begin = u, .end = to, .ctas = {shares.part_of(start), shares.part_of(next - 1)}};
      attend_part(part, copies);
      u = to, start = next;
    }
  }

  /// Maxima of all segments.
  __device__ void scan_maxima(const FfdItems& items) {
    FfdSegment s = first_segment(p, items, static_cast<int>(blockIdx.x), lane);
    Ring ring{s, FfdEntries(p, s), warp};
    ring.segments = 1 << 30;
    for (;; next_segment(p, s)) {
      scan_segment(s, ring, nullptr);
      __syncthreads();
      if (s.items_left == 0) return;
    }
  }

  __device__ void init_barriers() {
    if (lane == 0) {
      for (int i = 0; i < Shared::kScanStages; ++i) init_barrier(&sh.scan_full[warp][i], 1);
      for (int i = 0; i < Shared::kUnitStages; ++i) init_barrier(&sh.unit_full[warp][i], 1);
      publish_barriers();
    }
    __syncwarp();
  }

  __device__ void run() {
    if (warp == kFfdWarps - 1) {
      prefetch_small(p.call.q, p.pairs() * p.group * D * 2, lane);
      prefetch_small(p.call.delta, p.num_kv_heads * 4, lane);
      prefetch_small(p.pair_arrivals, p.pairs() * 4, lane);
      prefetch_small(p.pair_kept, p.pairs() * 4, lane);
    }
    init_barriers();
    const FfdItems items = deal_items(p, lane);
    const bool busy = static_cast<int>(blockIdx.x) < items.ctas;
    if (p.phases == kFfdMergePhase) {
      if (!busy) return;
      FfdSegment s = first_segment(p, items, static_cast<int>(blockIdx.x), lane);
      for (;; next_segment(p, s)) {
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
    const bool deals = p.phases == kFfdAllPhases && items.most_per_cta() > p.few_items;
    if (busy) run_segments(items, deals);
    if (!deals) return;
    grid_barrier(p.barrier);
    attend_dealt(items);
  }
};

template <class T, int D, int kGroups, int kBits, bool kLate>
__global__ void __launch_bounds__(kFfdThreads, 1) ffd_fused_kernel(const __grid_constant__ FfdFusedParams p) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(128) std::uint8_t memory[];
  FfdFused<T, D, kGroups, kBits, kLate>{p, *reinterpret_cast<FfdFusedShared<D, kGroups, kBits>*>(memory)}.run();
#endif
}

}  // namespace attest
