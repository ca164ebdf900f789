// A block of threads scores 128 tokens at a time, 16 per warp; the next keys load while the last scores are written.
#include <cmath>

#include "kernels/decode/baselines/key_scan_cuda.h"
#include "kernels/decode/baselines/score_output.cuh"
#include "kernels/decode/baselines/token_tiles.cuh"
#include "kernels/decode/baselines/work_shares.cuh"
#include "kernels/device/cuda_check.h"
#include "kernels/device/multiprocessor.h"

namespace attest {
namespace {

constexpr int kKeyScanWarps = kExactBlock / kWarpTokens, kKeyScanThreads = 32 * kKeyScanWarps;
constexpr int resident(int dim) { return dim == 64 ? 3 : 2; }  // thread blocks per multiprocessor

/// Maxima of block `block` of the pair, from those of its tiles: of_tiles [kKeyScanWarps][kTileHeads].
__device__ void store_maxima(const ExactCache& cache, const KeyScanCall& call, int sub_block, int pair, int block,
                             const float (*of_tiles)[kTileHeads]) {
  if (threadIdx.x >= kKeyScanWarps * kTileHeads) return;
  const int part = static_cast<int>(threadIdx.x) / kTileHeads, head = static_cast<int>(threadIdx.x) % kTileHeads;
  const int parts = kExactBlock / sub_block, tiles = sub_block / kWarpTokens;
  float maximum = -INFINITY;
  if (part < parts && head < cache.group)
    for (int tile = part * tiles; tile < (part + 1) * tiles; ++tile) maximum = fmaxf(maximum, of_tiles[tile][head]);
  const std::int64_t at = static_cast<std::int64_t>(pair) * cache.max_sub_blocks(sub_block) + block * parts + part;
  if (call.head_maxima != nullptr && part < parts && head < cache.group)
    call.head_maxima[at * cache.group + head] = maximum;
  for (int offset = kTileHeads / 2; offset > 0; offset /= 2)
    maximum = fmaxf(maximum, __shfl_xor_sync(0xFFFFFFFFu, maximum, offset));
  if (call.maxima != nullptr && part < parts && head == 0) call.maxima[at] = maximum;
}

template <ElementType kType, int kDim>
__global__ void __launch_bounds__(kKeyScanThreads, resident(kDim))
    key_scan_kernel(const ExactCache cache, const KeyScanCall call, int sub_block) {
  __shared__ float of_tiles[2][kKeyScanWarps][kTileHeads];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const auto blocks_of = [&](int pair) { return (cache.length_of(pair) + kExactBlock - 1) / kExactBlock; };
  const WorkShares shares(items_before(cache.pairs(), blocks_of), static_cast<int>(gridDim.x), 1);
  const bool wants_maxima = call.maxima != nullptr || call.head_maxima != nullptr;
  int buffer = 0;
  for_own_items(shares, static_cast<int>(blockIdx.x), cache.pairs(), blocks_of, [&](int pair, int begin, int end) {
    const int length = cache.length_of(pair);
    const std::uint16_t* keys = cache.keys_of(pair);
    float* scores = call.scores == nullptr ? nullptr : call.scores + pair * cache.max_tokens * cache.group;
    QueryTile<kDim> q;
    KeyTile<kDim> k;
    k.load(keys, begin * kExactBlock + warp * kWarpTokens, length, lane);
    q.load(cache.queries_of(pair, call.q), cache.group, lane);
    for (int block = begin; block < end; ++block) {
      const int first = block * kExactBlock + warp * kWarpTokens;
      TileScores s;
      multiply_keys<kType>(q, k, s);
      if (block + 1 < end) k.load(keys, first + kExactBlock, length, lane);
      store_scores(s, cache.scale, scores, cache.group, first, length, lane);
      if (!wants_maxima || block >= length / kExactBlock) continue;
      float maximum[2];
      tile_maxima(s, maximum);
      if (lane_quad(lane) == 0) {
        of_tiles[buffer][warp][lane_row(lane)] = maximum[0];
        of_tiles[buffer][warp][lane_row(lane) + 8] = maximum[1];
      }
      __syncthreads();
      store_maxima(cache, call, sub_block, pair, block, of_tiles[buffer]);
      buffer ^= 1;  // so that one barrier per block suffices
    }
  });
}

}  // namespace

void cuda_key_scan(const ExactCache& cache, int sub_block, const KeyScanCall& call, cudaStream_t stream) {
  check_exact_cache(cache, sub_block);
  with_tiles_of(cache, [&](auto type, auto dim) {
    constexpr int kDim = decltype(dim)::value;
    const auto blocks = static_cast<unsigned>(resident(kDim) * num_multiprocessors());
    key_scan_kernel<decltype(type)::value, kDim><<<blocks, kKeyScanThreads, 0, stream>>>(cache, call, sub_block);
    ATTEST_CUDA_LAUNCHED(key_scan_kernel);
  });
}

}  // namespace attest
