// A thread block takes the tiles of one sub-sequence in order, 16 tokens of each per warp. While it decides on a tile,
// and while the values of that tile load, the keys of its next two tiles are on their way.
#include <algorithm>
#include <string>

#include "dumps/base/error.h"
#include "kernels/decode/baselines/score_output.cuh"
#include "kernels/decode/baselines/skip_softmax_cuda.h"
#include "kernels/decode/baselines/softmax_state.cuh"
#include "kernels/device/cuda_check.h"
#include "kernels/device/multiprocessor.h"
#include "kernels/device/scratch_layout.h"

namespace attest {
namespace {

constexpr int kSkipWarps = kSkipTile / kWarpTokens, kSkipThreads = 32 * kSkipWarps;

struct Splits {
  int maximum;  ///< sub-sequences of a long sequence
  int* kept;    ///< [pairs, maximum] tiles

  __device__ static int tiles(int length) { return (length + kSkipTile - 1) / kSkipTile; }
  __device__ int count(int length) const { return min(tiles(length), maximum); }
  __device__ int slot(int pair) const { return pair * maximum; }
};

std::size_t parts_bytes(const ExactCache& cache, int splits) {
  return aligned_part(AttentionParts::bytes(cache, static_cast<std::int64_t>(cache.pairs()) * splits));
}

template <ElementType kType, int kDim>
__global__ void __launch_bounds__(kSkipThreads)
    skip_kernel(const ExactCache cache, const SkipSoftmaxCall call, const Splits splits, const AttentionParts parts) {
  extern __shared__ __align__(16) unsigned char shared[];
  __shared__ float of_warps[2][kSkipWarps][kTileHeads];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int split = static_cast<int>(blockIdx.x), pair = static_cast<int>(blockIdx.y);
  const int length = cache.length_of(pair), step = splits.count(length), tiles = Splits::tiles(length);
  if (split >= step) return;
  const std::uint16_t *keys = cache.keys_of(pair), *values = cache.values_of(pair);
  const float delta = call.delta[pair % cache.num_kv_heads];
  QueryTile<kDim> q;
  KeyTile<kDim> even, odd;
  SoftmaxState<kType, kDim> state;
  even.load(keys, split * kSkipTile + warp * kWarpTokens, length, lane);
  odd.load(keys, (split + step) * kSkipTile + warp * kWarpTokens, length, lane);
  q.load(cache.queries_of(pair, call.q), cache.group, lane);
  float running[2];  // of heads lane_row and lane_row + 8
  int kept = 0, buffer = 0;
  const auto take = [&](int tile, KeyTile<kDim>& k) {
    const int first = tile * kSkipTile + warp * kWarpTokens, valid = length - first;
    TileScores s;
    multiply_keys<kType>(q, k, s);
    if (tile + 2 * step < tiles) k.load(keys, first + 2 * step * kSkipTile, length, lane);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      float& score = s[i / 4][i % 4];
      score = score_token(i / 4, i % 4, lane) < valid ? score * cache.scale : -INFINITY;
    }
    float maximum[2];
    tile_maxima(s, maximum);
    if (lane_quad(lane) == 0) {
      of_warps[buffer][warp][lane_row(lane)] = maximum[0];
      of_warps[buffer][warp][lane_row(lane) + 8] = maximum[1];
    }
    __syncthreads();
    bool matters = tile == split;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int head = lane_row(lane) + half * 8;
      float of_tile = of_warps[buffer][0][head];
      for (int w = 1; w < kSkipWarps; ++w) of_tile = fmaxf(of_tile, of_warps[buffer][w][head]);
      if (tile == split) running[half] = of_tile;
      matters = matters || (head < cache.group && !(of_tile - running[half] < -delta));
      running[half] = fmaxf(running[half], of_tile);
    }
    buffer ^= 1;                                    // so that one barrier per tile suffices
    if (!__any_sync(0xFFFFFFFFu, matters)) return;  // the same in every warp
    ++kept;
    if (valid <= 0) return;
    ValueTile<kDim> v;
    v.load(values, first, length, lane);
    state.add(s, valid, v, lane);
  };
  for (int tile = split; tile < tiles; tile += 2 * step) {
    take(tile, even);
    if (tile + step < tiles) take(tile + step, odd);
  }
  const int slot = splits.slot(pair) + split;
  if (threadIdx.x == 0) splits.kept[slot] = kept;
  store_part<kSkipWarps>(state, cache.group, parts, slot, shared);
}

/// A thread block per (head, pair).
template <ElementType kType>
__global__ void merge_kernel(const ExactCache cache, const Splits splits, const AttentionParts parts,
                             const AttentionOutput result, int* kept) {
  const int head = static_cast<int>(blockIdx.x), pair = static_cast<int>(blockIdx.y);
  const int begin = splits.slot(pair), end = begin + splits.count(cache.length_of(pair));
  merge_parts<kType>(cache, parts, pair, head, begin, end, result);
  if (head != 0 || threadIdx.x != 0) return;
  int sum = 0;
  for (int slot = begin; slot < end; ++slot) sum += splits.kept[slot];
  kept[pair] = sum;
}

void check_splits(const ExactCache& cache, int splits) {
  check_exact_cache(cache);
  if (splits < 1) throw InputError("decode kernel: expected at least 1 sub-sequence, found " + std::to_string(splits));
}

}  // namespace

int skip_softmax_splits(const ExactCache& cache) {
  check_exact_cache(cache);
  const int tiles = static_cast<int>((cache.max_tokens + kSkipTile - 1) / kSkipTile);
  return std::clamp(num_multiprocessors() / cache.pairs(), 1, tiles);
}

std::size_t skip_softmax_scratch(const ExactCache& cache, int splits) {
  check_splits(cache, splits);
  return parts_bytes(cache, splits) + sizeof(int) * static_cast<std::size_t>(cache.pairs()) * splits;
}

void cuda_skip_softmax(const ExactCache& cache, int splits, const SkipSoftmaxCall& call, cudaStream_t stream) {
  check_splits(cache, splits);
  const auto pairs = static_cast<unsigned>(cache.pairs());
  const AttentionParts parts(cache, static_cast<std::int64_t>(pairs) * splits, call.scratch);
  const Splits of_call{splits, reinterpret_cast<int*>(call.scratch + parts_bytes(cache, splits))};
  const AttentionOutput result{call.sinks, call.out, call.lse};
  with_tiles_of(cache, [&](auto type, auto dim) {
    constexpr ElementType kType = decltype(type)::value;
    constexpr int kDim = decltype(dim)::value;
    const std::size_t bytes = store_part_bytes(cache, kSkipWarps);
    allow_shared_memory(skip_kernel<kType, kDim>, bytes);
    skip_kernel<kType, kDim>
        <<<dim3(static_cast<unsigned>(splits), pairs), kSkipThreads, bytes, stream>>>(cache, call, of_call, parts);
    ATTEST_CUDA_LAUNCHED(skip_kernel);
    merge_kernel<kType><<<dim3(static_cast<unsigned>(cache.group), pairs), kDim, 0, stream>>>(cache, of_call, parts,
                                                                                              result, call.kept);
    ATTEST_CUDA_LAUNCHED(merge_kernel);
  });
}

}  // namespace attest
