// Selections of sub-blocks. A sequence's keys stay in shared memory while a block of threads searches them.
#include <algorithm>
#include <cmath>
#include <string>

#include "dumps/base/error.h"
#include "kernels/decode/baselines/block_selection_cuda.h"
#include "kernels/decode/baselines/radix_select.cuh"
#include "kernels/decode/baselines/token_tiles.cuh"
#include "kernels/device/block_reduce.cuh"
#include "kernels/device/cuda_check.h"
#include "kernels/device/multiprocessor.h"

namespace attest {
namespace {

constexpr int kSelectionThreads = 256, kSearchThreads = 1024, kMassThreads = 128;
constexpr int kMaxInShared = 16384;  // longer rows are read from device memory in every pass

/// Sub-blocks of every row.
struct SubBlocks {
  int size, per_block, maximum;  // tokens; in a block of 128; in a row of masks

  SubBlocks(const ExactCache& cache, int sub_block)
      : size(sub_block), per_block(kExactBlock / sub_block), maximum(cache.max_sub_blocks(sub_block)) {}
  __device__ int count(const ExactCache& cache, int pair) const {
    return cache.length_of(pair) / kExactBlock * per_block;
  }
  __device__ std::int64_t row(int pair) const { return static_cast<std::int64_t>(pair) * maximum; }
  std::size_t shared_bytes() const { return maximum <= kMaxInShared ? static_cast<std::size_t>(maximum) * 4 : 0; }
};

/// Marks the thread's sub-block, and adds the block's kept ones to the pair's count, which was 0.
__device__ void store_kept(const SubBlocks& blocks, const BlockSelection& selection, int pair, int place, bool kept) {
  if (place < blocks.maximum) selection.mask[blocks.row(pair) + place] = kept ? 1 : 0;
  const int all = __syncthreads_count(kept ? 1 : 0);
  if (threadIdx.x == 0 && all > 0) atomicAdd(selection.counts + pair, all);
}

template <bool kInShared>
__global__ void __launch_bounds__(kSearchThreads)
    top_k_kernel(const ExactCache cache, const SubBlocks blocks, const float* maxima, int keep,
                 const BlockSelection selection) {
  extern __shared__ std::uint32_t keys[];
  __shared__ RadixSelectShared<unsigned> shared;
  const int pair = static_cast<int>(blockIdx.x), thread = static_cast<int>(threadIdx.x);
  const int count = blocks.count(cache, pair), kept = min(count, keep);
  const float* row = maxima + blocks.row(pair);
  if constexpr (kInShared) {
    for (int i = thread; i < count; i += kSearchThreads) keys[i] = ordered_bits(row[i]);
    __syncthreads();
  }
  const auto key = [&](int i) {
    if constexpr (kInShared) return keys[i];
    return ordered_bits(row[i]);
  };
  SelectedCut cut;  // keeps everything
  if (kept < count)
    cut = radix_select<kSearchThreads>(
        count, key, [](int) { return 1u; }, static_cast<unsigned>(kept), shared);
  for (int i = thread; i < blocks.maximum; i += kSearchThreads)
    selection.mask[blocks.row(pair) + i] = i < count && cut.keeps(key(i), i) ? 1 : 0;
  if (thread == 0) selection.counts[pair] = kept;
}

__global__ void __launch_bounds__(kSelectionThreads)
    top_delta_kernel(const ExactCache cache, const SubBlocks blocks, const float* head_maxima, const TopDeltaRule rule,
                     const BlockSelection selection) {
  constexpr int kRuns = kSelectionThreads / kTileHeads;
  __shared__ float of_runs[kRuns][kTileHeads];
  const int pair = static_cast<int>(blockIdx.y), group = cache.group;
  const int count = blocks.count(cache, pair), full = count / blocks.per_block;
  const int sinks = min(rule.sink_blocks, full) * blocks.per_block,
            locals = min(rule.local_blocks, full) * blocks.per_block;
  const float* rows = head_maxima + blocks.row(pair) * group;
  const int run = static_cast<int>(threadIdx.x) / kTileHeads, head = static_cast<int>(threadIdx.x) % kTileHeads;
  float maximum = -INFINITY;
  for (int i = run; head < group && i < sinks + locals; i += kRuns)
    maximum = fmaxf(maximum, rows[(i < sinks ? i : count - locals + i - sinks) * group + head]);
  of_runs[run][head] = maximum;
  __syncthreads();
  if (threadIdx.x < kTileHeads) {
    for (int r = 1; r < kRuns; ++r) maximum = fmaxf(maximum, of_runs[r][head]);
    of_runs[0][head] = maximum - rule.delta[pair % cache.num_kv_heads];
  }
  __syncthreads();
  const int place = static_cast<int>(blockIdx.x) * kSelectionThreads + static_cast<int>(threadIdx.x);
  bool kept = false;
  if (place < count)
    for (int h = 0; h < group; ++h) kept = kept || rows[static_cast<std::int64_t>(place) * group + h] >= of_runs[0][h];
  store_kept(blocks, selection, pair, place, kept);
}

/// What the launches of top-p leave for each other.
struct TopPScratch {
  float2* states;         ///< [pairs, G, maximum] largest score m of a sub-block, sum of exp(s - m)
  std::uint32_t* masses;  ///< [pairs, G, maximum] mass in units of the row's largest weight, as the bits of a float
  SelectedCut* cuts;      ///< [pairs, G]

  static std::int64_t rows(const ExactCache& cache) { return static_cast<std::int64_t>(cache.pairs()) * cache.group; }
  static std::size_t bytes(const ExactCache& cache, const SubBlocks& blocks) {
    return static_cast<std::size_t>(rows(cache)) *
           (static_cast<std::size_t>(blocks.maximum) * (sizeof(float2) + 4) + sizeof(SelectedCut));
  }
  TopPScratch(const ExactCache& cache, const SubBlocks& blocks, std::byte* memory)
      : states(reinterpret_cast<float2*>(memory)),
        masses(reinterpret_cast<std::uint32_t*>(states + rows(cache) * blocks.maximum)),
        cuts(reinterpret_cast<SelectedCut*>(masses + rows(cache) * blocks.maximum)) {}
};

__device__ float2 joined(float2 a, float2 b) {
  const float maximum = fmaxf(a.x, b.x);
  return {maximum, a.y * __expf(a.x - maximum) + b.y * __expf(b.x - maximum)};
}

/// A thread block per 128 tokens of a pair, again and again; a thread per (16 tokens, head).
__global__ void __launch_bounds__(kMassThreads)
    state_kernel(const ExactCache cache, const SubBlocks blocks, const float* scores, const TopPScratch scratch) {
  constexpr int kTiles = kExactBlock / kWarpTokens;
  static_assert(kTiles * kTileHeads == kMassThreads);
  __shared__ float own[(kExactBlock + kTiles) * kTileHeads];
  __shared__ float2 of_tiles[kTiles][kTileHeads];
  const int pair = static_cast<int>(blockIdx.y), group = cache.group, thread = static_cast<int>(threadIdx.x);
  const int full = cache.length_of(pair) / kExactBlock, part = thread / group, head = thread % group;
  for (int block = static_cast<int>(blockIdx.x); block < full; block += static_cast<int>(gridDim.x)) {
    const float* from = scores + (pair * cache.max_tokens + static_cast<std::int64_t>(block) * kExactBlock) * group;
    // Tiles lie a row apart, so that their threads read different banks.
    for (int i = thread; i < kExactBlock * group; i += kMassThreads)
      own[i + i / (kWarpTokens * group) * group] = from[i];
    __syncthreads();
    if (part < kTiles) {
      // In order of the tokens in every tile, so that equal tiles have equal masses.
      const auto score = [&](int t) { return own[(part * (kWarpTokens + 1) + t) * group + head]; };
      float2 state{score(0), 0};
      for (int t = 1; t < kWarpTokens; ++t) state.x = fmaxf(state.x, score(t));
      for (int t = 0; t < kWarpTokens; ++t) state.y += __expf(score(t) - state.x);
      of_tiles[part][head] = state;
    }
    __syncthreads();
    if (part < blocks.per_block) {
      const int tiles = kTiles / blocks.per_block;
      float2 state = of_tiles[part * tiles][head];
      for (int tile = part * tiles + 1; tile < (part + 1) * tiles; ++tile) state = joined(state, of_tiles[tile][head]);
      const std::int64_t row = static_cast<std::int64_t>(pair) * group + head;
      scratch.states[row * blocks.maximum + block * blocks.per_block + part] = state;
    }
  }
}

/// A thread block per (head, pair).
template <bool kInShared>
__global__ void __launch_bounds__(kSearchThreads)
    top_p_kernel(const ExactCache cache, const SubBlocks blocks, double share, const TopPScratch scratch) {
  using Sum = unsigned long long;
  constexpr float kUnit = 0x1p36f;  // of the sums, whose masses are at most 2^24, one for each token
  extern __shared__ std::uint32_t keys[];
  __shared__ RadixSelectShared<Sum> shared;
  const int pair = static_cast<int>(blockIdx.y), count = blocks.count(cache, pair);
  if (count == 0) return;
  const std::int64_t row = static_cast<std::int64_t>(pair) * cache.group + blockIdx.x;
  const float2* states = scratch.states + row * blocks.maximum;
  std::uint32_t* masses = scratch.masses + row * blocks.maximum;
  float maximum = -INFINITY;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kSearchThreads) maximum = fmaxf(maximum, states[i].x);
  maximum = block_reduce(maximum, reinterpret_cast<float*>(shared.reduce), Larger());
  const auto key = [&](int i) {
    if constexpr (kInShared) return keys[i];
    return masses[i];
  };
  const auto weight = [&](int i) { return __float2ull_rz(__uint_as_float(key(i)) * kUnit) + 1; };
  Sum total = 0;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kSearchThreads) {
    masses[i] = __float_as_uint(states[i].y * __expf(states[i].x - maximum));
    if constexpr (kInShared) keys[i] = masses[i];
    total += weight(i);
  }
  total = block_reduce(total, shared.of_warps, Plus());
  __syncthreads();
  const double wanted = ceil(share * static_cast<double>(total));
  const Sum target = wanted < 1 ? 1 : static_cast<Sum>(wanted);
  const SelectedCut cut = radix_select<kSearchThreads>(count, key, weight, target, shared);
  if (threadIdx.x == 0) scratch.cuts[row] = cut;
}

__global__ void __launch_bounds__(kSelectionThreads)
    union_kernel(const ExactCache cache, const SubBlocks blocks, const TopPScratch scratch,
                 const BlockSelection selection) {
  const int pair = static_cast<int>(blockIdx.y);
  const int place = static_cast<int>(blockIdx.x) * kSelectionThreads + static_cast<int>(threadIdx.x);
  const std::int64_t first_row = static_cast<std::int64_t>(pair) * cache.group;
  bool kept = false;
  if (place < blocks.count(cache, pair))
    for (std::int64_t row = first_row; row < first_row + cache.group; ++row)
      kept = kept || scratch.cuts[row].keeps(scratch.masses[row * blocks.maximum + place], place);
  store_kept(blocks, selection, pair, place, kept);
}

/// One thread per sub-block.
dim3 grid_of(const ExactCache& cache, const SubBlocks& blocks) {
  return dim3(static_cast<unsigned>(std::max(1, (blocks.maximum + kSelectionThreads - 1) / kSelectionThreads)),
              static_cast<unsigned>(cache.pairs()));
}

void clear_counts(const ExactCache& cache, const BlockSelection& selection, cudaStream_t stream) {
  ATTEST_CUDA(cudaMemsetAsync(selection.counts, 0, sizeof(int) * static_cast<std::size_t>(cache.pairs()), stream));
}

}  // namespace

void cuda_select_top_k(const ExactCache& cache, int sub_block, const float* maxima, int keep,
                       const BlockSelection& selection, cudaStream_t stream) {
  check_exact_cache(cache, sub_block);
  if (keep < 1) throw InputError("decode kernel: expected at least 1 sub-block to keep, found " + std::to_string(keep));
  const SubBlocks blocks(cache, sub_block);
  const std::size_t bytes = blocks.shared_bytes();
  const auto kernel = blocks.maximum <= kMaxInShared ? top_k_kernel<true> : top_k_kernel<false>;
  allow_shared_memory(kernel, bytes);
  kernel<<<static_cast<unsigned>(cache.pairs()), kSearchThreads, bytes, stream>>>(cache, blocks, maxima, keep,
                                                                                  selection);
  ATTEST_CUDA_LAUNCHED(top_k_kernel);
}

void cuda_select_top_delta(const ExactCache& cache, int sub_block, const float* head_maxima, const TopDeltaRule& rule,
                           const BlockSelection& selection, cudaStream_t stream) {
  check_exact_cache(cache, sub_block);
  if (rule.sink_blocks < 0 || rule.local_blocks < 0)
    throw InputError("decode kernel: expected at least 0 sink and local blocks, found " +
                     std::to_string(rule.sink_blocks) + " and " + std::to_string(rule.local_blocks));
  const SubBlocks blocks(cache, sub_block);
  clear_counts(cache, selection, stream);
  top_delta_kernel<<<grid_of(cache, blocks), kSelectionThreads, 0, stream>>>(cache, blocks, head_maxima, rule,
                                                                             selection);
  ATTEST_CUDA_LAUNCHED(top_delta_kernel);
}

std::size_t top_p_scratch(const ExactCache& cache, int sub_block) {
  check_exact_cache(cache, sub_block);
  return TopPScratch::bytes(cache, SubBlocks(cache, sub_block));
}

void cuda_select_top_p(const ExactCache& cache, int sub_block, const float* scores, double p, std::byte* memory,
                       const BlockSelection& selection, cudaStream_t stream) {
  constexpr double kTolerance = 1e-6;  // so that equal weights do not hang on rounding
  constexpr int kMaxThreadBlocks = 1024;
  check_exact_cache(cache, sub_block);
  if (!(p > 0 && p <= 1)) throw InputError("decode kernel: expected p in (0, 1], found " + std::to_string(p));
  const SubBlocks blocks(cache, sub_block);
  const TopPScratch scratch(cache, blocks, memory);
  const auto pairs = static_cast<unsigned>(cache.pairs());
  clear_counts(cache, selection, stream);
  state_kernel<<<dim3(static_cast<unsigned>(std::clamp(cache.max_blocks(), 1, kMaxThreadBlocks)), pairs), kMassThreads,
                 0, stream>>>(cache, blocks, scores, scratch);
  ATTEST_CUDA_LAUNCHED(state_kernel);
  const std::size_t bytes = blocks.shared_bytes();
  const auto kernel = blocks.maximum <= kMaxInShared ? top_p_kernel<true> : top_p_kernel<false>;
  allow_shared_memory(kernel, bytes);
  kernel<<<dim3(static_cast<unsigned>(cache.group), pairs), kSearchThreads, bytes, stream>>>(cache, blocks,
                                                                                             p - kTolerance, scratch);
  ATTEST_CUDA_LAUNCHED(top_p_kernel);
  union_kernel<<<grid_of(cache, blocks), kSelectionThreads, 0, stream>>>(cache, blocks, scratch, selection);
  ATTEST_CUDA_LAUNCHED(union_kernel);
}

}  // namespace attest
