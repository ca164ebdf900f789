// Shared memory of the fused decode, and what its steps pass to each other.
#pragma once

#include <algorithm>

#include "kernels/decode/fused/ffd_merge.cuh"
#include "kernels/decode/fused/ffd_scan.cuh"
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
  float boundary_maxima[16][16];                  ///< [warp][head] largest score of its tiles of sink and local blocks
  std::uint32_t waiting[kFfdWarps][kTileStages];  ///< tiles whose copies are under way
  int kept;                                       ///< sub-blocks, of a CTA of a cluster
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
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const std::uint64_t policy = read_once_policy();
  int query_pair = -1;  ///< whose queries are in sh.query

  __device__ const T* query_of(int pair) const {
    return static_cast<const T*>(p.call.q) + static_cast<std::int64_t>(pair) * p.group * D;
  }
  /// All threads.
  __device__ void init_barriers() {
    if (lane == 0) {
      for (int i = 0; i < Shared::kScanStages; ++i) init_barrier(&sh.scan_full[warp][i], 1);
      for (int i = 0; i < Shared::kTileStages; ++i) init_barrier(&sh.tile_full[warp][i], 1);
      publish_barriers();
    }
    __syncwarp();
  }

  using QueryTask = FfdQueryTask<T, D, kGroups>;
  __device__ QueryTask load_query(int pair) const {
    QueryTask task{};
    if (warp < QueryTask::kTasks && pair != query_pair)
      task.load(query_of(pair), p.group, warp, lane), task.find_most();
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
