// Scores of the thumbnails of a plain FFD cache. A thread block walks over blocks of a pair; a thread has a token.
#include "kernels/decode/plain/ffd_plain_cuda.cuh"
#include "kernels/device/cuda_check.h"

namespace attest::ffd_plain {
namespace {

/// The codes of eight channels from `channel` on, in kBits bytes.
template <int kBits>
__device__ std::uint64_t load_codes(const std::uint8_t* row, int channel, int valid, bool aligned) {
  const std::uint8_t* first = row + channel / kOctet * kBits;
  if (aligned) {
    if constexpr (kBits == 2) return *reinterpret_cast<const std::uint16_t*>(first);
    if constexpr (kBits == 4) return *reinterpret_cast<const std::uint32_t*>(first);
    if constexpr (kBits == 8) return *reinterpret_cast<const std::uint64_t*>(first);
  }
  std::uint64_t codes = 0;
  const int bytes = (valid * kBits + 7) / 8;
  for (int i = 0; i < bytes; ++i) codes |= std::uint64_t{first[i]} << (8 * i);
  return codes;
}

/// Maxima of sixteen neighbouring tokens, then of sub-blocks, then of the group. Its barrier comes after all reads of
/// the block's steps.
template <int kHeads>
__device__ void write_maxima(const PlainScan& task, int pair, int b, const float (&score)[kHeads]) {
  __shared__ float of_sixteen[kFfdBlock / kLeastSubBlock][kHeads];
  const int thread = threadIdx.x, group = task.cache.shape.group;
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    float most = score[h];
#pragma unroll
    for (int offset = kLeastSubBlock / 2; offset > 0; offset /= 2)
      most = fmaxf(most, __shfl_xor_sync(0xFFFFFFFFu, most, offset));
    if (thread % kLeastSubBlock == 0) of_sixteen[thread / kLeastSubBlock][h] = most;
  }
  __syncthreads();
  const int per_block = kFfdBlock / task.sub_block, sixteens = task.sub_block / kLeastSubBlock;
  if (thread >= per_block) return;
  const std::int64_t part = task.cache.block(pair, b) * per_block + thread;
  float most_of_group = -__int_as_float(0x7F800000);
  for (int h = 0; h < group; ++h) {
    float most = of_sixteen[thread * sixteens][h];
    for (int i = 1; i < sixteens; ++i) most = fmaxf(most, of_sixteen[thread * sixteens + i][h]);
    if (task.head_maxima != nullptr) task.head_maxima[part * group + h] = most;
    most_of_group = fmaxf(most_of_group, most);
  }
  if (task.group_maxima != nullptr) task.group_maxima[part] = most_of_group;
}

/// Grid (pairs, splits). Shared memory: queries [padded D, kHeads], steps [padded D].
template <int kHeads, int kBits>
__global__ void __launch_bounds__(kFfdBlock) plain_scan_kernel(PlainScan task) {
  extern __shared__ float shared[];
  const PlainCache& cache = task.cache;
  const int dim = cache.shape.head_dim, group = cache.shape.group, thread = threadIdx.x, pair = blockIdx.x;
  const int blocks = cache.length(pair) / kFfdBlock;
  if (static_cast<int>(blockIdx.y) >= blocks) return;
  float *queries = shared, *steps = shared + padded(dim) * kHeads;
  stage_queries<kHeads>(cache, task.q, pair, queries);
  constexpr float kOffset = static_cast<float>((1 << kBits) - 1) / 2;
  const bool aligned = dim % kOctet == 0;
  for (int b = blockIdx.y; b < blocks; b += gridDim.y) {
    const float* amax = cache.amax(pair, b);
    for (int d = thread; d < padded(dim); d += kFfdBlock) steps[d] = d < dim ? step_of(amax[d], kBits) : 0.0f;
    __syncthreads();
    const std::uint8_t* row = cache.codes(pair, b) + thread * cache.code_bytes;
    float score[kHeads] = {};
    const auto thumbnail = [&](int channel, int valid, float(&key)[kOctet]) {
      const std::uint64_t codes = load_codes<kBits>(row, channel, valid, aligned);
#pragma unroll
      for (int i = 0; i < kOctet; ++i) {
        const unsigned code = static_cast<unsigned>(codes >> (i * kBits)) & ((1u << kBits) - 1);
        key[i] = __fmul_rn(static_cast<float>(code) - kOffset, steps[channel + i]);
      }
    };
    add_products<kHeads>(queries, dim, thumbnail, score);
    const std::int64_t token = cache.block(pair, b) * kFfdBlock + thread;
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      score[h] *= task.scale;
      if (h < group && task.scores != nullptr) task.scores[token * group + h] = score[h];
    }
    write_maxima<kHeads>(task, pair, b, score);
  }
}

template <int kHeads, int kBits>
void launch(const PlainScan& task, cudaStream_t stream) {
  const FfdCacheShape& shape = task.cache.shape;
  const dim3 grid(static_cast<unsigned>(shape.pairs()), static_cast<unsigned>(task.splits));
  const std::size_t bytes = sizeof(float) * static_cast<std::size_t>(padded(shape.head_dim) * (kHeads + 1));
  plain_scan_kernel<kHeads, kBits><<<grid, kFfdBlock, bytes, stream>>>(task);
  ATTEST_CUDA_LAUNCHED(plain_scan_kernel);
}

}  // namespace

void launch_plain_scan(const PlainScan& task, cudaStream_t stream) {
  if (task.cache.max_blocks == 0) return;
  with_heads(task.cache.shape.group, [&]<int kHeads>() {
    if (task.cache.shape.bits == 2) return launch<kHeads, 2>(task, stream);
    if (task.cache.shape.bits == 4) return launch<kHeads, 4>(task, stream);
    launch<kHeads, 8>(task, stream);
  });
}

}  // namespace attest::ffd_plain
