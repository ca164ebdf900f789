// Attention over the kept sub-blocks of a plain FFD cache. A thread block walks over its blocks of a pair: first a
// thread has a token, then channels of the values.
#include "kernels/decode/plain/ffd_plain_cuda.cuh"
#include "kernels/device/block_reduce.cuh"
#include "kernels/device/cuda_check.h"

namespace attest::ffd_plain {
namespace {

constexpr int kWarps = kFfdBlock / 32;

__device__ float lowest() { return -__int_as_float(0x7F800000); }

/// A block of a pair, or its tail.
struct Place {
  int pair, block;
  bool is_tail;
};

/// Eight channels of an e4m3 row; 0 from `valid` on.
__device__ void load_residual(const std::uint8_t* row, int channel, int valid, bool aligned, float (&x)[kOctet]) {
  std::uint64_t codes = 0;
  if (aligned)
    codes = *reinterpret_cast<const std::uint64_t*>(row + channel);
  else
    for (int i = 0; i < valid; ++i) codes |= std::uint64_t{row[channel + i]} << (8 * i);
#pragma unroll
  for (int i = 0; i < kOctet; ++i) {
    const auto code = static_cast<__nv_fp8_storage_t>(codes >> (8 * i) & 0xFF);
    x[i] = __half2float(__half(__nv_cvt_fp8_to_halfraw(code, __NV_E4M3)));
  }
}

/// s' of this thread's token: that of the thumbnail and the residual's part, or the exact score in the tail.
template <int kHeads>
__device__ void token_scores(const PlainRefine& task, const float* queries, const Place& place,
                             float (&score)[kHeads]) {
  const PlainCache& cache = task.cache;
  const int dim = cache.shape.head_dim, group = cache.shape.group, token = threadIdx.x;
  float sum[kHeads] = {};
  if (place.is_tail) {
    const std::uint16_t* keys = cache.last_keys(place.pair, place.block);
    const auto exact = [&](int channel, int valid, float(&key)[kOctet]) {
      load_octet(cache.shape.element_type, keys, token * dim + channel, valid, dim, key);
    };
    add_products<kHeads>(queries, dim, exact, sum);
#pragma unroll
    for (int h = 0; h < kHeads; ++h) score[h] = task.scale * sum[h];
    return;
  }
  const std::uint8_t* row = cache.residual(place.pair, place.block) + token * dim;
  const auto residual = [&](int channel, int valid, float(&key)[kOctet]) {
    load_residual(row, channel, valid, dim % kOctet == 0, key);
  };
  add_products<kHeads>(queries, dim, residual, sum);
  const float* scanned = task.scores + (cache.block(place.pair, place.block) * kFfdBlock + token) * group;
#pragma unroll
  for (int h = 0; h < kHeads; ++h) score[h] = h < group ? fmaf(task.scale, sum[h], scanned[h]) : 0.0f;
}

/// Running maximum, sum of the weights of this thread's tokens, and this thread's channels of the output.
template <int kHeads, int kChannels>
struct Running {
  float max[kHeads], sum[kHeads], out[kChannels][kHeads];
};

/// Grid (pairs, splits). Shared memory: queries [padded D, kHeads], weights [128, kHeads].
template <int kHeads, int kChannels>
__global__ void __launch_bounds__(kFfdBlock) plain_refine_kernel(PlainRefine task) {
  extern __shared__ float shared[];
  __shared__ float warp_max[kWarps][kHeads], reduced[32];
  __shared__ int flags[kFfdBlock / kLeastSubBlock];
  const PlainCache& cache = task.cache;
  const int dim = cache.shape.head_dim, value_dim = cache.shape.value_dim, group = cache.shape.group;
  const int pair = blockIdx.x, thread = threadIdx.x, length = cache.length(pair), blocks = length / kFfdBlock;
  const int per_block = kFfdBlock / task.sub_block;
  float *queries = shared, *weights = shared + padded(dim) * kHeads;
  stage_queries<kHeads>(cache, task.q, pair, queries);
  Running<kHeads, kChannels> state;
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    state.max[h] = lowest();
    state.sum[h] = 0;
    for (int c = 0; c < kChannels; ++c) state.out[c][h] = 0;
  }
  for (int b = blockIdx.y; b <= blocks; b += gridDim.y) {
    const Place place{pair, b, b == blocks};
    const bool kept = place.is_tail ? thread < length - blocks * kFfdBlock
                                    : task.flags[cache.block(pair, b) * per_block + thread / task.sub_block] != 0;
    if (!__syncthreads_or(kept)) continue;  // also: weights of the block before have been read
    float score[kHeads];
#pragma unroll
    for (int h = 0; h < kHeads; ++h) score[h] = lowest();
    if (kept) token_scores<kHeads>(task, queries, place, score);
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      const float most = warp_reduce(score[h], Larger{});
      if (thread % 32 == 0) warp_max[thread / 32][h] = most;
    }
    if (thread % kLeastSubBlock == 0) flags[thread / kLeastSubBlock] = kept;
    __syncthreads();
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      float most = state.max[h];
      for (int w = 0; w < kWarps; ++w) most = fmaxf(most, warp_max[w][h]);
      const float shrink = expf(state.max[h] - most), weight = kept ? expf(score[h] - most) : 0.0f;
      state.max[h] = most;
      state.sum[h] = fmaf(state.sum[h], shrink, weight);
      weights[thread * kHeads + h] = weight;
#pragma unroll
      for (int c = 0; c < kChannels; ++c) state.out[c][h] *= shrink;
    }
    __syncthreads();
    const std::uint16_t* values = place.is_tail ? cache.tail_values(pair) : cache.values(pair, b);
    const int tokens = place.is_tail ? length - blocks * kFfdBlock : kFfdBlock;
    for (int first = 0; first < tokens; first += kLeastSubBlock) {
      if (flags[first / kLeastSubBlock] == 0) continue;
      for (int t = first; t < min(tokens, first + kLeastSubBlock); ++t)
#pragma unroll
        for (int c = 0; c < kChannels; ++c) {
          const int d = c * kFfdBlock + thread;
          const float value = d < value_dim ? element(cache.shape.element_type, values[t * value_dim + d]) : 0.0f;
#pragma unroll
          for (int h = 0; h < kHeads; ++h) state.out[c][h] = fmaf(weights[t * kHeads + h], value, state.out[c][h]);
        }
    }
  }
  const std::int64_t partial = (static_cast<std::int64_t>(pair) * task.splits + blockIdx.y) * group;
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    const float sum = block_reduce(state.sum[h], reduced, Plus{});
    if (h >= group) continue;
    if (thread == 0) {
      task.partials.max[partial + h] = state.max[h];
      task.partials.sum[partial + h] = sum;
    }
#pragma unroll
    for (int c = 0; c < kChannels; ++c)
      if (const int d = c * kFfdBlock + thread; d < value_dim)
        task.partials.out[(partial + h) * value_dim + d] = state.out[c][h];
  }
}

template <int kHeads, int kChannels>
void launch(const PlainRefine& task, cudaStream_t stream) {
  const FfdCacheShape& shape = task.cache.shape;
  const dim3 grid(static_cast<unsigned>(shape.pairs()), static_cast<unsigned>(task.splits));
  const std::size_t bytes = sizeof(float) * static_cast<std::size_t>((padded(shape.head_dim) + kFfdBlock) * kHeads);
  plain_refine_kernel<kHeads, kChannels><<<grid, kFfdBlock, bytes, stream>>>(task);
  ATTEST_CUDA_LAUNCHED(plain_refine_kernel);
}

}  // namespace

void launch_plain_refine(const PlainRefine& task, cudaStream_t stream) {
  const int value_dim = task.cache.shape.value_dim;
  with_heads(task.cache.shape.group, [&]<int kHeads>() {
    if (value_dim <= kFfdBlock) return launch<kHeads, 1>(task, stream);
    if (value_dim <= 2 * kFfdBlock) return launch<kHeads, 2>(task, stream);
    static_assert(kFfdPlainMostDim <= 5 * kFfdBlock);
    launch<kHeads, 5>(task, stream);
  });
}

}  // namespace attest::ffd_plain
