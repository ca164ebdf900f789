// Arguments of the fused decode kernel, and where its scratch memory holds what.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/decode/base/ffd_call.h"

namespace attest {

/// Parts of a decode that one launch does. A fused decode is all of them.
/// kFfdSelectPhase is what follows a scan that cannot decide block by block.
enum FfdPhases : unsigned {
  kFfdScanPhase = 1,
  kFfdSelectPhase = 2,
  kFfdRefinePhase = 4,
  kFfdMergePhase = 8,
  kFfdAllPhases = 15
};

/// A tile of 16 tokens that is kept: of a full block of the pair, or kTail + tile of its tail.
struct FfdKeptTile {
  static constexpr std::uint32_t kTail = 0x80000000u, kNone = 0xffffffffu;
  std::uint32_t pair = 0;
  std::uint32_t tile = 0;
};

struct FfdFusedParams {
  FfdDecodeCall call;
  FfdCacheView cache;
  FfdDecodeOptions options;
  int batch = 0, num_kv_heads = 0, group = 0;
  int max_static_items = 0;  ///< of a CTA, up to which tiles stay where they were kept
  int ctas_per_pair = 0;     ///< of the grid; 0 if there are more pairs
  int pairs_per_cta = 0;     ///< of the kernel of whole pairs
  int cluster_shift = 0;     ///< of the clustered kernel: 2^cluster_shift CTAs have a pair
  bool fills_device = true;  ///< clusters have at least three quarters of the multiprocessors
  std::int64_t max_blocks = 0, max_masks = 0;
  unsigned phases = kFfdAllPhases;
  /// Scores and maxima of all blocks are wanted, without a decision.
  bool scan_only = false;
  // Scratch memory. Slots are those of partial results: a CTA's index plus the pair's.
  float* scores = nullptr;       ///< [pairs, max_blocks * 128, G] s^ of kept tiles
  float* head_maxima = nullptr;  ///< [pairs, sub-blocks, G], of pseudo_max = global
  float* maxima = nullptr;       ///< [pairs, sub-blocks], of topk
  /// [pairs, max_masks] a bit per kept tile: what a CTA cannot hold, or another launch needs.
  std::uint8_t* masks = nullptr;
  // Lists of kept tiles, to be dealt anew: a CTA's begins at 8 * its tile_base.
  FfdKeptTile* kept_tiles = nullptr;  ///< [8 * pairs * max_masks]
  int* tile_counts = nullptr;         ///< [CTAs]
  unsigned* tile_bases = nullptr;     ///< [CTAs]
  int* pair_starts = nullptr;         ///< [slots] where a pair's tiles begin in the CTA's list
  unsigned* barrier = nullptr;        ///< grid_barrier(); zero before the first launch
  // Counts, zero before the first launch: who uses a pair's last leaves zero for the next launch.
  int* pair_kept = nullptr;           ///< [pairs] sub-blocks kept
  unsigned* pair_arrivals = nullptr;  ///< [pairs, kFfdWarps] CTAs whose warp has written its partial results
  float* partial = nullptr;           ///< [slots, G, Dv] sums of values
  float2* partial_state = nullptr;    ///< [slots, G] largest score, sum of weights

  __host__ __device__ std::int64_t pairs() const { return static_cast<std::int64_t>(batch) * num_kv_heads; }
  __host__ __device__ int sub_tiles() const { return options.sub_block / 16; }
  /// The decision needs the maxima of all blocks first.
  __host__ __device__ bool decides_late() const {
    return scan_only || options.rule == FfdDecodeRule::topk || options.pseudo_max == FfdDecodePseudoMax::global;
  }
};

}  // namespace attest
