// Shared memory of the fused decode, and what its steps pass to each other.
#pragma once

#include <algorithm>

#include "kernels/decode/fused/ffd_merge.cuh"
#include "kernels/decode/fused/ffd_scan.cuh"
#include "kernels/decode/fused/ffd_select.cuh"

namespace attest {

inline constexpr int kFfdMaxBoundaryBlocks = 8;  ///< sink and local blocks
inline constexpr int kFfdMaxParts = 32;          ///< segments between refinements
inline constexpr int kFfdSharedMasks = 2048;     ///< blocks whose masks fit into shared memory

/// What a CTA attends of one pair: the kept tiles of a segment, or its share of all kept tiles.
struct FfdPart {
  FfdSegment segment;
  const std::uint8_t* masks = nullptr;  ///< [segment.blocks] a bit per kept tile; null: the CTA's share of all
  int begin = 0, end = 0;               ///< of all kept tiles
  int2 ctas = {0, 0};                   ///< first and last that attend some of the pair
};

template <int D, int kGroups, int kBits>
struct FfdFusedShared {
  using Layout = FfdFragments<D, kBits>;
  using Pieces = FfdPieces<D, kBits>;
  static constexpr int kScanStages = D == 64 ? 4 : 2;
  static constexpr int kTileStages = kGroups == 1 ? 2 : 1;
  static constexpr int kTileBytes = Layout::kResidualTile + Layout::kValueTile;
  static constexpr int kStateBytes = 4 * kGroups * D * 4;
  static constexpr int kArea =
      (std::max(std::max(kScanStages * Pieces::kStage, kTileStages* kTileBytes), kStateBytes) + 127) / 128 * 128;

  alignas(128) std::uint8_t area[kFfdWarps][kArea];
  FfdQueryFragments<D, kGroups> query;
  std::uint64_t scan_full[kFfdWarps][kScanStages], tile_full[kFfdWarps][kTileStages];
  FfdReduction reduction;
  FfdMerge merge;
  float boundary_maxima[16][16];                  ///< [sink or local block, or tile of them][head] largest score
  std::uint32_t waiting[kFfdWarps][kTileStages];  ///< tiles whose copies are under way
  FfdPart part[kFfdMaxParts];
  std::uint8_t masks[kFfdSharedMasks];
  int cta_tiles[kFfdMaxCtas + 1];   ///< kept tiles in the lists of all CTAs before
  unsigned cta_bases[kFfdMaxCtas];  ///< FfdFusedParams::tile_bases
};

/// Blocks that a segment's scan looks at, in the warps' order: sink and local blocks of the pair, then the segment's
/// others.
struct FfdEntries {
  int sinks = 0, local_from = 0, boundary = 0, low = 0, count = 0;

  FfdEntries() = default;
  __device__ FfdEntries(const FfdFusedParams& p, const FfdSegment& s) {
    if (s.blocks == 0) return;
    int high = s.blocks;
    if (!p.decides_late() && p.options.pseudo_max == FfdDecodePseudoMax::thumbnail) {
      sinks = min(p.options.sink_blocks, s.full);
      const int locals = min(p.options.local_blocks, s.full - sinks);
      local_from = s.full - locals;
      boundary = sinks + locals;
      low = s.blocks_before(sinks);
      high = s.blocks_before(local_from);
    }
    count = boundary + max(0, high - low);
  }
  __device__ int block(const FfdSegment& s, int e) const {
    return e < sinks ? e : e < boundary ? local_from + e - sinks : s.block(low + e - boundary);
  }
  /// Index of the entry's block among the segment's, or -1.
  __device__ int own(const FfdSegment& s, int e) const {
    if (e >= boundary) return low + e - boundary;
    const int i = s.blocks_before(block(s, e));
    return i < s.blocks && s.block(i) == block(s, e) ? i : -1;
  }
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
};

}  // namespace attest
