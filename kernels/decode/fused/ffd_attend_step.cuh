// The refinement: a CTA's warps attend tiles that were kept, by the CTA itself or by others.
#pragma once

#include <type_traits>

#include "kernels/decode/fused/ffd_scan_step.cuh"

namespace attest {

/// Where the tiles of a part are found: in its masks, or in all CTAs' lists.
enum class FfdTiles { own, listed };

template <class T, int D, int kGroups, int kBits, bool kLate>
struct FfdAttendStep : FfdScanStep<T, D, kGroups, kBits, kLate> {
  using Step = FfdStep<T, D, kGroups, kBits>;
  using Shared = typename Step::Shared;
  using Layout = typename Step::Layout;
  using Step::copy_query, Step::use_query, Step::residual_of, Step::values_of;
  using Step::kHalves, Step::p, Step::sh, Step::warp, Step::lane, Step::policy;

  /// The CTA that listed kept tile i of all: the last whose list begins at or before i.
  __device__ int lister_of(int i) const {
    int low = 0, high = static_cast<int>(gridDim.x);
#pragma unroll 1
    while (low + 1 < high) {
      const int middle = (low + high) / 2;
      (sh.cta_tiles[middle] <= i ? low : high) = middle;
    }
    return low;
  }
  __device__ FfdKeptTile listed_tile(int i) const {
    const int cta = lister_of(i);
    return entry_of(list_at(sh.cta_bases[cta]) + (i - sh.cta_tiles[cta]));
  }
  __device__ FfdKeptTile* list_at(unsigned base) const { return p.kept_tiles + std::int64_t{8} * base; }
  /// From the L2 cache: another CTA may have written it.
  __device__ static FfdKeptTile entry_of(const FfdKeptTile* entry) {
    const uint2 words = __ldcg(reinterpret_cast<const uint2*>(entry));
    return {words.x, words.y};
  }
  /// What a warp attends: tile of the pair, or kTail + tile of its tail.
  static constexpr std::uint32_t kTail = FfdKeptTile::kTail, kNoTile = FfdKeptTile::kNone;

  /// A warp's way through the kept tiles of a part: of the second on every kFfdWarps-th, so that all warps have as
  /// many.
  struct Cursor {
    int rank, after;    ///< the next tile and the one behind it, among all that are kept
    int chunk = -32;    ///< blocks whose masks the lanes hold
    int end = 0;        ///< kept tiles up to the chunk's end
    unsigned mask = 0;  ///< of this lane's block
    int before = 0;     ///< kept tiles before this lane's block
  };
  /// The same through all CTAs' lists.
  struct ListedCursor {
    int first;               ///< of the warp's tiles, among all that are kept
    int taken = 0;           ///< tiles
    std::uint32_t tile = 0;  ///< of the lane
  };
  template <FfdTiles kTiles>
  using CursorOf = std::conditional_t<kTiles == FfdTiles::own, Cursor, ListedCursor>;

  /// The warp's next tile.
  __device__ std::uint32_t next_tile(const FfdPart& part, Cursor& c) const {
    const int rank = c.rank;
    c.rank = c.after, c.after += kFfdWarps;
    return own_tile(part.segment, part.masks, rank, c);
  }
  /// Each lane looks one up: one at a time, a warp would wait for each.
  __device__ std::uint32_t next_tile(const FfdPart& part, ListedCursor& c) const {
    if (c.taken % 32 == 0) {
      const int i = c.first + (c.taken + lane) * kFfdWarps;
      c.tile = i < part.end ? listed_tile(i).tile : kNoTile;
    }
    return __shfl_sync(~0u, c.tile, c.taken++ % 32);
  }

  /// Tile number `rank` of those in the segment's masks, and behind them of its tail.
  __device__ std::uint32_t own_tile(const FfdSegment& s, const std::uint8_t* masks, int rank, Cursor& c) const {
#pragma unroll 1
    while (rank >= c.end) {
      if (c.chunk + 32 >= s.blocks) return rank - c.end < s.tail_tiles() ? kTail + (rank - c.end) : kNoTile;
      c.chunk += 32;
      c.mask = c.chunk + lane < s.blocks ? masks[c.chunk + lane] : 0u;
      const int through = warp_inclusive_sum(__popc(c.mask));
      c.before = c.end + through - __popc(c.mask);
      c.end += __shfl_sync(~0u, through, 31);
    }
    // The last lane whose tiles begin at or before the rank: those behind it begin later, or have none.
    const int owner = __popc(__ballot_sync(~0u, c.before <= rank)) - 1;
    unsigned mask = __shfl_sync(~0u, c.mask, owner);
    const int skipped = rank - __shfl_sync(~0u, c.before, owner);
#pragma unroll 1
    for (int i = 0; i < skipped; ++i) mask &= mask - 1;
    return s.block(c.chunk + owner) * kFfdTiles + __ffs(static_cast<int>(mask)) - 1;
  }

  /// Attends the kept tiles of a part from the cursor on, after the tile `taken`, which is on its way into the next
  /// stage. kReadsEarly: a tile's scores are read before its copy is waited for and the one after it is looked up.
  template <FfdTiles kTiles, bool kReadsEarly = false>
  __device__ void attend(FfdAttention<T, D, kHalves>& state, const FfdPart& part, CursorOf<kTiles> cursor,
                         unsigned& copies, std::uint32_t taken = kNoTile) {
    constexpr int kStages = Shared::kTileStages;
    state.clear();
    const int pair = part.segment.pair;
    const std::int64_t pair_tiles = pair * p.max_blocks * kFfdTiles;
    bool on_its_way = taken != kNoTile;
    std::uint32_t next = on_its_way ? taken : next_tile(part, cursor);
    copy_query(pair);
    unsigned issued = copies;
    std::uint32_t tile = kNoTile;
    float x[kHalves][4];
    const auto read_scores = [&] {
      load_scores(x, p.scores + (pair_tiles + tile) * kFfdTile * p.group, p.group, lane);
    };
#pragma unroll 1
    for (int i = -kStages;; ++i) {
      std::uint32_t done = kNoTile;
      if (i >= 0) {
        if (!kReadsEarly) tile = sh.waiting[warp][i % kStages];
        if (tile == kNoTile) break;
        const uint4* values;
        if (tile & kTail) {
          values = score_tail(x, part.segment, static_cast<int>(tile & ~kTail));
        } else {
          const unsigned stage = copies % kStages;
          if (!kReadsEarly) read_scores();
          wait_barrier(&sh.tile_full[warp][stage], copies / kStages & 1);
          const std::uint8_t* area = sh.area[warp] + stage * Shared::kTileBytes;
          add_residual<D, kGroups>(x, sh.query, area, lane);
          values = reinterpret_cast<const uint4*>(area + Layout::kResidualTile);
          ++copies;
          done = tile;
        }
        state.add(x, values, lane);
        __syncwarp();
      }
      const bool copied = !(next & kTail);
      if (elect_one()) {
        sh.waiting[warp][(i + kStages) % kStages] = next;
        if (copied && !on_its_way) load_tile(pair_tiles + next, issued % kStages);
        if (kTiles == FfdTiles::listed && done != kNoTile) discard(pair_tiles + done);
      }
      on_its_way = false;
      issued += copied;
      if (kReadsEarly && i >= -1) {
        __syncwarp();
        tile = sh.waiting[warp][(i + 1) % kStages];
        if (!(tile & kTail)) read_scores();
      }
      if (next != kNoTile) next = next_tile(part, cursor);
      __syncwarp();
      if (i == -1) use_query(pair);
    }
  }

  /// One thread.
  __device__ void discard(std::int64_t tile) const {
    discard_scores<kGroups>(p.scores + tile * kFfdTile * p.group, p.group);
  }
  /// Discards the scores of the tiles in the segment's masks, which are attended. By the warps that have no part in the
  /// merge, beside it: a discard after each tile would make the warps that have most tiles later. All threads.
  __device__ void discard_own(const FfdSegment& s, const std::uint8_t* masks) const {
    const int merging = (p.group * (D / 4) + 31) / 32 * 32, first = merging < kFfdThreads ? merging : 0;
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x) - first; i < s.blocks * kFfdTiles; i += kFfdThreads - first)
      if (i >= 0 && masks[i / kFfdTiles] >> i % kFfdTiles & 1)
        discard((s.pair * p.max_blocks + s.block(i / kFfdTiles)) * kFfdTiles + i % kFfdTiles);
  }

  /// One thread.
  __device__ void load_tile(std::int64_t tile, unsigned stage) {
    std::uint8_t* to = sh.area[warp] + stage * Shared::kTileBytes;
    std::uint64_t* barrier = &sh.tile_full[warp][stage];
    expect_bytes(barrier, Layout::kResidualTile + Layout::kValueTile);
    bulk_copy(to, residual_of(tile), Layout::kResidualTile, barrier, policy);
    bulk_copy(to + Layout::kResidualTile, values_of(tile), Layout::kValueTile, barrier, policy);
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

  template <FfdTiles kTiles>
  __device__ void attend_part(const FfdPart& part, unsigned& copies) {
    FfdAttention<T, D, kHalves> state;
    CursorOf<kTiles> cursor{part.begin + warp};
    if constexpr (kTiles == FfdTiles::own) cursor.after = cursor.rank + kFfdWarps;
    attend<kTiles>(state, part, cursor, copies);
    merge_warps<T, D, kHalves>(p, sh.merge, state, sh.area[0], Shared::kArea, part.segment.pair, part.ctas.x,
                               part.ctas.y);
    if constexpr (kTiles == FfdTiles::own) discard_own(part.segment, part.masks);
    __syncthreads();  // the areas are read
    fence_bulk_copies();
  }
};

}  // namespace attest
