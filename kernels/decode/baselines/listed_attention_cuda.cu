// The kept sub-blocks of a mask are listed, then attended with the tail.
#include "kernels/decode/baselines/listed_attention_cuda.h"
#include "kernels/decode/baselines/tile_attention.cuh"
#include "kernels/device/cuda_check.h"
#include "kernels/device/multiprocessor.h"
#include "kernels/device/scratch_layout.h"

namespace attest {
namespace {

constexpr int kListThreads = 1024, kListWarps = kListThreads / 32;

/// The kept sub-blocks of every pair, in ascending order.
struct Lists {
  int sub_block, max_sub_blocks;
  int* counts;   ///< [pairs]
  int* entries;  ///< [pairs, max_sub_blocks]

  __device__ int tiles_per_entry() const { return sub_block / kWarpTokens; }
  /// Tiles of 16 tokens that the pair attends.
  __device__ int tiles_of(const ExactCache& cache, int pair) const {
    const int tail = cache.length_of(pair) % kExactBlock;
    return counts[pair] * tiles_per_entry() + (tail + kWarpTokens - 1) / kWarpTokens;
  }
  __device__ auto of(const ExactCache& cache, int pair) const {
    const int per_entry = tiles_per_entry(), listed = counts[pair] * per_entry;
    const int tail = cache.length_of(pair) / kExactBlock * kExactBlock;
    const int* own = entries + static_cast<std::int64_t>(pair) * max_sub_blocks;
    return [=, sub_block = sub_block](int tile) {
      if (tile >= listed) return tail + (tile - listed) * kWarpTokens;
      return __ldg(own + tile / per_entry) * sub_block + tile % per_entry * kWarpTokens;
    };
  }
};

/// The memory of a call.
struct Scratch {
  std::int64_t slots;
  std::size_t counts, entries, bytes;  // offset of the lists, size of everything

  Scratch(const ExactCache& cache, int sub_block)
      : slots(tile_slots(cache, kTileBlocks * num_multiprocessors())),
        counts(aligned_part(AttentionParts::bytes(cache, slots))),
        entries(counts + sizeof(int) * cache.pairs()),
        bytes(entries + sizeof(int) * cache.pairs() * cache.max_sub_blocks(sub_block)) {}
};

/// A thread block per pair; a warp lists a run of neighbouring sub-blocks.
__global__ void __launch_bounds__(kListThreads)
    list_kernel(const ExactCache cache, const std::uint8_t* mask, const Lists lists) {
  __shared__ int of_warps[kListWarps];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int pair = static_cast<int>(blockIdx.x);
  const int count = cache.length_of(pair) / kExactBlock * (kExactBlock / lists.sub_block);
  const int run = (count + kListThreads - 1) / kListThreads * 32, begin = warp * run, end = min(count, begin + run);
  const std::uint8_t* row = mask + static_cast<std::int64_t>(pair) * lists.max_sub_blocks;
  int kept = 0;
#pragma unroll 4
  for (int first = begin; first < end; first += 32)
    kept += __popc(__ballot_sync(0xFFFFFFFFu, first + lane < end && row[first + lane] != 0));
  if (lane == 0) of_warps[warp] = kept;
  __syncthreads();
  int before = 0, all = 0;
  for (int w = 0; w < kListWarps; ++w) {
    if (w < warp) before += of_warps[w];
    all += of_warps[w];
  }
  if (threadIdx.x == 0) lists.counts[pair] = all;
  int* to = lists.entries + static_cast<std::int64_t>(pair) * lists.max_sub_blocks + before;
  for (int first = begin; first < end; first += 32) {
    const bool own = first + lane < end && row[first + lane] != 0;
    const unsigned kept_here = __ballot_sync(0xFFFFFFFFu, own);
    if (own) to[__popc(kept_here & ((1u << lane) - 1))] = first + lane;
    to += __popc(kept_here);
  }
}

template <ElementType kType, int kDim>
__global__ void __launch_bounds__(kTileThreads, kTileBlocks)
    listed_kernel(const ExactCache cache, const void* queries, const Lists lists, const AttentionParts parts) {
  extern __shared__ __align__(16) unsigned char shared[];
  attend_tiles<kType, kDim, WeightBits::one_number>(cache, queries, lists, parts, shared, [](const TileScores&) {});
}

/// A thread block per (head, pair).
template <ElementType kType>
__global__ void merge_kernel(const ExactCache cache, const Lists lists, const AttentionParts parts, int blocks,
                             const AttentionOutput result) {
  merge_tiles<kType>(cache, lists, parts, blocks, result);
}

}  // namespace

std::size_t listed_attention_scratch(const ExactCache& cache, int sub_block) {
  check_exact_cache(cache, sub_block);
  return Scratch(cache, sub_block).bytes;
}

void cuda_listed_attention(const ExactCache& cache, int sub_block, const ListedAttentionCall& call,
                           cudaStream_t stream) {
  check_exact_cache(cache, sub_block);
  const Scratch scratch(cache, sub_block);
  const AttentionParts parts(cache, scratch.slots, call.scratch);
  const Lists lists{sub_block, cache.max_sub_blocks(sub_block), reinterpret_cast<int*>(call.scratch + scratch.counts),
                    reinterpret_cast<int*>(call.scratch + scratch.entries)};
  const AttentionOutput result{call.sinks, call.out, call.lse};
  const int blocks = kTileBlocks * num_multiprocessors();
  const auto pairs = static_cast<unsigned>(cache.pairs());
  list_kernel<<<pairs, kListThreads, 0, stream>>>(cache, call.mask, lists);
  ATTEST_CUDA_LAUNCHED(list_kernel);
  with_tiles_of(cache, [&](auto type, auto dim) {
    constexpr ElementType kType = decltype(type)::value;
    constexpr int kDim = decltype(dim)::value;
    const std::size_t bytes = store_part_bytes(cache, kTileWarps);
    allow_shared_memory(listed_kernel<kType, kDim>, bytes);
    listed_kernel<kType, kDim>
        <<<static_cast<unsigned>(blocks), kTileThreads, bytes, stream>>>(cache, call.q, lists, parts);
    ATTEST_CUDA_LAUNCHED(listed_kernel);
    merge_kernel<kType>
        <<<dim3(static_cast<unsigned>(cache.group), pairs), kDim, 0, stream>>>(cache, lists, parts, blocks, result);
    ATTEST_CUDA_LAUNCHED(merge_kernel);
  });
}

}  // namespace attest
