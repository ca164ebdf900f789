// Attention over tiles of 16 tokens of every pair, which are shared equally among the thread blocks, so that a pair
// that has many does not delay the others, and the merge of what the thread blocks found.
//
// `Tiles` says what is attended: tiles_of(cache, pair) is the number of a pair's tiles, and of(cache, pair) returns a
// function from a tile to its first token.
#pragma once

#include "kernels/decode/baselines/softmax_state.cuh"
#include "kernels/decode/baselines/token_tiles.cuh"
#include "kernels/decode/baselines/work_shares.cuh"

namespace attest {

inline constexpr int kTileWarps = 4, kTileThreads = 32 * kTileWarps;
inline constexpr int kTileBlocks = 2;  ///< thread blocks per multiprocessor

/// Parts that `blocks` thread blocks leave: see merge_tiles().
inline std::int64_t tile_slots(const ExactCache& cache, int blocks) { return blocks + cache.pairs(); }

template <class Tiles>
__device__ WorkShares tile_shares(const ExactCache& cache, const Tiles& tiles, int blocks) {
  const auto tiles_of = [&](int pair) { return tiles.tiles_of(cache, pair); };
  return WorkShares(items_before(cache.pairs(), tiles_of), blocks, kTileWarps);
}

/// Attends the thread block's share. Keys and values of a warp's next tile load while it attends one.
/// see(scores) is shown the scores of every tile; where there is no token or no head, they repeat another or are 0.
/// `shared`: store_part_bytes(cache, kTileWarps) bytes.
template <ElementType kType, int kDim, WeightBits kWeights, class Tiles, class See>
__device__ void attend_tiles(const ExactCache& cache, const void* queries, const Tiles& tiles,
                             const AttentionParts& parts, void* shared, See&& see) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int block = static_cast<int>(blockIdx.x);
  const auto tiles_of = [&](int pair) { return tiles.tiles_of(cache, pair); };
  const WorkShares shares = tile_shares(cache, tiles, static_cast<int>(gridDim.x));
  for_own_items(shares, block, cache.pairs(), tiles_of, [&](int pair, int begin, int end) {
    const int length = cache.length_of(pair);
    const std::uint16_t *keys = cache.keys_of(pair), *values = cache.values_of(pair);
    const auto token_of = tiles.of(cache, pair);
    const auto first_token = [&](int tile) { return tile < end ? token_of(tile) : 0; };
    QueryTile<kDim> q;
    KeyTile<kDim> k;
    ValueTile<kDim> v;
    SoftmaxState<kType, kDim, kWeights> state;
    int tile = begin + warp, token = first_token(tile), next = first_token(tile + kTileWarps);
    if (tile < end) {
      k.load(keys, token, length, lane);
      v.load(values, token, length, lane);
    }
    q.load(cache.queries_of(pair, queries), cache.group, lane);
    for (; tile < end; tile += kTileWarps) {
      const bool more = tile + kTileWarps < end;
      TileScores s;
      multiply_keys<kType>(q, k, s);
      if (more) k.load(keys, next, length, lane);
#pragma unroll
      for (int i = 0; i < 8; ++i) s[i / 4][i % 4] *= cache.scale;
      see(s);
      state.add(s, length - token, v, lane);
      if (more) v.load(values, next, length, lane);
      token = next;
      next = first_token(tile + 2 * kTileWarps);
    }
    store_part<kTileWarps>(state, cache.group, parts, block + pair, shared);
  });
}

/// Merges the parts of head blockIdx.x of pair blockIdx.y, and returns the output's channel threadIdx.x. Thread block c
/// of the `blocks` before left its part of pair p in slot c + p: of two parts that follow each other either the block
/// or the pair is a later one, so no two have the same slot.
template <ElementType kType, class Tiles>
__device__ float merge_tiles(const ExactCache& cache, const Tiles& tiles, const AttentionParts& parts, int blocks,
                             const AttentionOutput& result) {
  const int pair = static_cast<int>(blockIdx.y), count = tiles.tiles_of(cache, pair);
  const WorkShares shares = tile_shares(cache, tiles, blocks);
  const int before = items_before(pair, [&](int p) { return tiles.tiles_of(cache, p); });
  const int begin = count == 0 ? 0 : shares.block_of(before) + pair,
            end = count == 0 ? 0 : shares.block_of(before + count - 1) + pair + 1;
  return merge_parts<kType>(cache, parts, pair, static_cast<int>(blockIdx.x), begin, end, result);
}

}  // namespace attest
