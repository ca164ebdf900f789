// Every tile of every sequence is attended.
#include "kernels/decode/baselines/dense_attention_cuda.h"
#include "kernels/decode/baselines/tile_attention.cuh"
#include "kernels/device/cuda_check.h"
#include "kernels/device/multiprocessor.h"

namespace attest {
namespace {

struct AllTiles {
  __device__ int tiles_of(const ExactCache& cache, int pair) const {
    return (cache.length_of(pair) + kWarpTokens - 1) / kWarpTokens;
  }
  __device__ auto of(const ExactCache&, int) const {
    return [](int tile) { return tile * kWarpTokens; };
  }
};

template <ElementType kType, int kDim>
__global__ void __launch_bounds__(kTileThreads, kTileBlocks)
    dense_kernel(const ExactCache cache, const DenseAttentionCall call, const AttentionParts parts) {
  extern __shared__ __align__(16) unsigned char shared[];
  bool usable = true;
  attend_tiles<kType, kDim, WeightBits::two_numbers>(
      cache, call.q, AllTiles{}, parts, shared, [&](const TileScores& s) {
#pragma unroll
        for (int i = 0; i < 8; ++i) usable = usable && fabsf(s[i / 4][i % 4]) <= call.largest_score;
      });
  if (!usable) *call.refused = 1;
}

/// A thread block per (head, pair).
template <ElementType kType>
__global__ void merge_dense_kernel(const ExactCache cache, const DenseAttentionCall call, const AttentionParts parts,
                                   int blocks) {
  const float out =
      merge_tiles<kType>(cache, AllTiles{}, parts, blocks, AttentionOutput{call.sinks, call.out, call.lse});
  if (!isfinite(out)) *call.refused = 1;
  const int pair = static_cast<int>(blockIdx.y);
  if (call.tokens != nullptr && blockIdx.x == 0 && threadIdx.x == 0) call.tokens[pair] = cache.length_of(pair);
}

int num_blocks() { return kTileBlocks * num_multiprocessors(); }

}  // namespace

std::size_t dense_attention_scratch(const ExactCache& cache) {
  check_exact_cache(cache);
  return AttentionParts::bytes(cache, tile_slots(cache, num_blocks()));
}

void cuda_dense_attention(const ExactCache& cache, const DenseAttentionCall& call, cudaStream_t stream) {
  check_exact_cache(cache);
  const int blocks = num_blocks();
  const AttentionParts parts(cache, tile_slots(cache, blocks), call.scratch);
  with_tiles_of(cache, [&](auto type, auto dim) {
    constexpr ElementType kType = decltype(type)::value;
    constexpr int kDim = decltype(dim)::value;
    const std::size_t bytes = store_part_bytes(cache, kTileWarps);
    allow_shared_memory(dense_kernel<kType, kDim>, bytes);
    dense_kernel<kType, kDim><<<static_cast<unsigned>(blocks), kTileThreads, bytes, stream>>>(cache, call, parts);
    ATTEST_CUDA_LAUNCHED(dense_kernel);
    const dim3 grid(static_cast<unsigned>(cache.group), static_cast<unsigned>(cache.pairs()));
    merge_dense_kernel<kType><<<grid, kDim, 0, stream>>>(cache, call, parts, blocks);
    ATTEST_CUDA_LAUNCHED(merge_dense_kernel);
  });
}

}  // namespace attest
