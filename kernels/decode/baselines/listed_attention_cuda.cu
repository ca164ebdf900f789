// Lists, attention and merge. The tiles of all pairs, kept ones and tails, are shared equally among the thread blocks,
// so that a pair that keeps much does not delay the others.
#include "kernels/decode/baselines/listed_attention_cuda.h"
#include "kernels/decode/baselines/softmax_state.cuh"
#include "kernels/decode/baselines/token_tiles.cuh"
#include "kernels/decode/baselines/work_shares.cuh"
#include "kernels/device/cuda_check.h"
#include "kernels/device/multiprocessor.h"

namespace attest {
namespace {

constexpr int kWarps = 4, kThreads = 32 * kWarps;
constexpr int kResident = 2;  // thread blocks per multiprocessor
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
};

/// The memory of a call.
struct Scratch {
  std::int64_t slots;
  std::size_t counts, entries, bytes;  // offset of the lists, size of everything

  Scratch(const ExactCache& cache, int sub_block)
      : slots(kResident * num_multiprocessors() + cache.pairs()),
        counts((AttentionParts::bytes(cache, slots) + 255) / 256 * 256),
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

__device__ WorkShares shares_of(const ExactCache& cache, const Lists& lists, int blocks) {
  const auto tiles_of = [&](int pair) { return lists.tiles_of(cache, pair); };
  return WorkShares(items_before(cache.pairs(), tiles_of), blocks, kWarps);
}

template <ElementType kType, int kDim>
__global__ void __launch_bounds__(kThreads, kResident)
    listed_kernel(const ExactCache cache, const void* queries, const Lists lists, const AttentionParts parts) {
  extern __shared__ __align__(16) unsigned char shared[];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int block = static_cast<int>(blockIdx.x);
  const auto tiles_of = [&](int pair) { return lists.tiles_of(cache, pair); };
  const WorkShares shares = shares_of(cache, lists, static_cast<int>(gridDim.x));
  for_own_items(shares, block, cache.pairs(), tiles_of, [&](int pair, int begin, int end) {
    const int length = cache.length_of(pair), per_entry = lists.tiles_per_entry();
    const int listed = lists.counts[pair] * per_entry;
    const int* entries = lists.entries + static_cast<std::int64_t>(pair) * lists.max_sub_blocks;
    const std::uint16_t *keys = cache.keys_of(pair), *values = cache.values_of(pair);
    const auto first_token = [&](int tile) {
      if (tile >= end) return 0;
      if (tile >= listed) return length / kExactBlock * kExactBlock + (tile - listed) * kWarpTokens;
      return __ldg(entries + tile / per_entry) * lists.sub_block + tile % per_entry * kWarpTokens;
    };
    QueryTile<kDim> q;
    KeyTile<kDim> k;
    ValueTile<kDim> v;
    SoftmaxState<kType, kDim> state;
    int tile = begin + warp, token = first_token(tile), next = first_token(tile + kWarps);
    if (tile < end) {
      k.load(keys, token, length, lane);
      v.load(values, token, length, lane);
    }
    q.load(cache.queries_of(pair, queries), cache.group, lane);
    for (; tile < end; tile += kWarps) {
      const bool more = tile + kWarps < end;
      TileScores s;
      multiply_keys<kType>(q, k, s);
      if (more) k.load(keys, next, length, lane);
#pragma unroll
      for (int i = 0; i < 8; ++i) s[i / 4][i % 4] *= cache.scale;
      state.add(s, length - token, v, lane);
      if (more) v.load(values, next, length, lane);
      token = next;
      next = first_token(tile + 2 * kWarps);
    }
    store_part<kWarps>(state, cache.group, parts, block + pair, shared);
  });
}

/// A thread block per (head, pair). Block c leaves its part of pair p in slot c + p: of two parts that follow each
/// other either the block or the pair is a later one, so no two have the same slot.
template <ElementType kType>
__global__ void merge_kernel(const ExactCache cache, const Lists lists, const AttentionParts parts, int blocks,
                             const AttentionOutput result) {
  const int pair = static_cast<int>(blockIdx.y);
  const auto tiles_of = [&](int p) { return lists.tiles_of(cache, p); };
  const WorkShares shares = shares_of(cache, lists, blocks);
  const int before = items_before(pair, tiles_of), tiles = tiles_of(pair);
  const int begin = tiles == 0 ? 0 : shares.block_of(before) + pair,
            end = tiles == 0 ? 0 : shares.block_of(before + tiles - 1) + pair + 1;
  merge_parts<kType>(cache, parts, pair, static_cast<int>(blockIdx.x), begin, end, result);
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
  const int blocks = kResident * num_multiprocessors();
  const auto pairs = static_cast<unsigned>(cache.pairs());
  list_kernel<<<pairs, kListThreads, 0, stream>>>(cache, call.mask, lists);
  ATTEST_CUDA_LAUNCHED(list_kernel);
  with_tiles_of(cache, [&](auto type, auto dim) {
    constexpr ElementType kType = decltype(type)::value;
    constexpr int kDim = decltype(dim)::value;
    const std::size_t bytes = store_part_bytes(cache, kWarps);
    allow_shared_memory(listed_kernel<kType, kDim>, bytes);
    listed_kernel<kType, kDim><<<static_cast<unsigned>(blocks), kThreads, bytes, stream>>>(cache, call.q, lists, parts);
    ATTEST_CUDA_LAUNCHED(listed_kernel);
    merge_kernel<kType>
        <<<dim3(static_cast<unsigned>(cache.group), pairs), kDim, 0, stream>>>(cache, lists, parts, blocks, result);
    ATTEST_CUDA_LAUNCHED(merge_kernel);
  });
}

}  // namespace attest
