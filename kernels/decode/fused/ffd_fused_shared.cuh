// Shared memory of the fused decode, and what its steps pass to each other.
#pragma once

#include <algorithm>

#include "kernels/decode/fused/ffd_merge.cuh"
#include "kernels/decode/fused/ffd_scores.cuh"
#include "kernels/decode/fused/ffd_select.cuh"

namespace attest {

inline constexpr int kFfdMaxParts = 32;       ///< segments between refinements
inline constexpr int kFfdSharedMasks = 2048;  ///< blocks whose masks fit into shared memory

/// What a CTA attends of one pair: the kept tiles of a segment, or its share of all kept tiles.
struct FfdPart {
  FfdSegment segment;
  const std::uint8_t* masks = nullptr;  ///< [segment.blocks] a bit per kept tile; null: the CTA's share of all
  int begin = 0, end = 0;               ///< of all kept tiles
  int2 ctas = {0, 0};                   ///< first and last that attend some of the pair
};

inline constexpr int kMaxClusterShift = 4;  ///< 16 thread blocks, Hopper's largest cluster

/// What the CTAs of a cluster send to one of them.
template <int D, int kGroups>
struct FfdInbox {
  static constexpr int kMaxCtas = 1 << kMaxClusterShift, kMaxHeads = 4 * kGroups;
  float4 sums[kMaxHeads * (D / 4)];   ///< [CTA, quad of the receiver's share] of values
  float2 state[kMaxCtas][kMaxHeads];  ///< [CTA][head] largest score, sum of weights
  int kept[kMaxCtas];                 ///< sub-blocks
};

template <int D, int kGroups, int kBits>
struct FfdFusedShared {
  using Layout = FfdFragments<D, kBits>;
  using Pieces = FfdPieces<D, kBits>;
  static constexpr int kScanStages = D == 64 ? 4 : 2;
  static constexpr int kTileStages = kGroups == 1 ? 2 : 1;
  static constexpr int kTileBytes = Layout::kResidualTile + Layout::kValueTile;
  static constexpr int kMaxHeads = 4 * kGroups;
  static constexpr int kStateBytes = kMaxHeads * kFfdStatePitch<D> * 4;
  static constexpr int kScanBytes = kScanStages * Pieces::kStage;
  static constexpr int kArea =
      (std::max({kScanBytes + FfdHalfPiece<D, kBits>::kBytes, kTileStages* kTileBytes, kStateBytes}) + 127) / 128 * 128;

  /// In turn: a ring of records with half a piece of sink and local blocks behind it, kept tiles, sums of values.
  alignas(128) std::uint8_t area[kFfdWarps][kArea];
  alignas(16) std::uint16_t raw_query[kMaxHeads * D];  ///< as the call has it
  FfdQueryFragments<D, kGroups> query;
  std::uint64_t scan_full[kFfdWarps][kScanStages], tile_full[kFfdWarps][kTileStages];
  std::uint64_t query_full, boundary_full, scanned, inbox_full;
  FfdReduction reduction;
  FfdMerge merge;
  float boundary_maxima[16][16];                  ///< [warp][head] largest score of its tiles of sink and local blocks
  std::uint32_t waiting[kFfdWarps][kTileStages];  ///< tiles whose copies are under way
  bool has_taken[kFfdWarps];                      ///< a warp of FfdOneSegment has a kept tile that is in no mask
  int kept;                                       ///< sub-blocks, of a CTA of a cluster
  int fetched;                                    ///< kept tiles that came into the L2 cache during the scan
  FfdInbox<D, kGroups> inbox;
  FfdPart part[kFfdMaxParts];
  std::uint8_t masks[kFfdSharedMasks];
  int cta_tiles[kFfdMaxCtas + 1];   ///< kept tiles in the lists of all CTAs before
  unsigned cta_bases[kFfdMaxCtas];  ///< FfdFusedParams::tile_bases
};

/// What every step of a CTA has.
template <class T, int D, int kGroups, int kBits>
struct FfdStep {
  using Shared = FfdFusedShared<D, kGroups, kBits>;
  using Layout = FfdFragments<D, kBits>;
  using Pieces = FfdPieces<D, kBits>;
  static constexpr int kHalves = (kGroups + 1) / 2;

  const FfdFusedParams& p;
  Shared& sh;
  /// From a shuffle: the compiler then knows that it is the same in all lanes. A barrier or a bulk copy whose address
  /// may differ between lanes becomes a loop over them.
  const int warp = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 32, 0);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::uint64_t policy = read_once_policy();
  int query_pair = -1;  ///< whose queries are in sh.query

  __device__ const T* query_of(int pair) const {
    return static_cast<const T*>(p.call.q) + static_cast<std::int64_t>(pair) * p.group * D;
  }
  /// Of a tile, counted from the cache's first.
  __device__ const std::uint8_t* residual_of(std::int64_t tile) const {
    return p.cache.residual + tile * Layout::kResidualTile;
  }
  __device__ const std::uint8_t* values_of(std::int64_t tile) const {
    return static_cast<const std::uint8_t*>(p.cache.values) + tile * Layout::kValueTile;
  }
  /// All threads.
  __device__ void init_barriers() {
    if (elect_one()) {
      for (int i = 0; i < Shared::kScanStages; ++i) init_barrier(&sh.scan_full[warp][i], 1);
      for (int i = 0; i < Shared::kTileStages; ++i) init_barrier(&sh.tile_full[warp][i], 1);
      if (warp == 0) {
        init_barrier(&sh.query_full, 1);
        init_barrier(&sh.boundary_full, kFfdWarps);
        init_barrier(&sh.scanned, kFfdWarps);
        sh.fetched = 0;
      }
      publish_barriers();
    }
    __syncthreads();
  }

  /// Begins to copy the pair's queries into shared memory, if they are not there. All threads.
  __device__ void copy_query(int pair) {
    if (pair == copied_pair) return;
    if (awaited_copies != query_copies) {  // another pair's copy, which nobody has waited for
      await_query();
      __syncthreads();  // a thread that missed this phase's end would wait for ever
    }
    copied_pair = pair;
    if (warp == 0 && elect_one()) {
      const std::uint32_t bytes = static_cast<std::uint32_t>(p.group) * D * sizeof(T);
      expect_bytes(&sh.query_full, bytes);
      bulk_copy(sh.raw_query, query_of(pair), bytes, &sh.query_full);
    }
    ++query_copies;
  }
  /// Makes sh.query of the pair's queries. All threads; those before are no longer read by any. Ends with a barrier.
  __device__ void use_query(int pair) {
    if (pair == query_pair) return;
    copy_query(pair);
    await_query();
    query_pair = pair;
    make_query_fragments<T, D, kGroups, kBits>(sh.query, reinterpret_cast<const T*>(sh.raw_query), p.group,
                                               p.options.scale, warp, lane);
  }
  /// After it no copy of queries is under way, not even one that nobody uses.
  __device__ void await_query() {
    if (awaited_copies != query_copies) wait_barrier(&sh.query_full, awaited_copies++ & 1);
  }

  int copied_pair = -1;  ///< whose queries are in sh.raw_query, or on their way there
  unsigned query_copies = 0, awaited_copies = 0;
};

}  // namespace attest
