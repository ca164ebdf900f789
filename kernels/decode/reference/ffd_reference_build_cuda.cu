// Builds a cache in row-major order and appends tokens to it. Codes and residuals are those of
// quantize/ffd_thumbnail.h, bit for bit.
#include <algorithm>

#include "kernels/decode/reference/ffd_reference_cuda.cuh"
#include "kernels/device/cuda_check.h"

namespace attest {
namespace ffd_reference {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kMaxGridY = 65535;

/// Quantises a block of 16-bit keys [128, D]. `keys` may have been written by this thread block before a barrier.
__device__ void quantize_block(const RowMajorCache& cache, const std::uint16_t* keys, int pair, int b) {
  const int dim = cache.shape.head_dim, bits = cache.shape.bits, per_byte = 8 / bits;
  const float z = cache.offset();
  float* amax = cache.amax(pair, b);
  for (int d = threadIdx.x; d < dim; d += kThreads) {
    float largest = 0;
    for (int t = 0; t < kFfdBlock; ++t) largest = fmaxf(largest, fabsf(cache.element(keys[t * dim + d])));
    amax[d] = largest;
  }
  __syncthreads();
  std::uint8_t *codes = cache.codes(pair, b), *residual = cache.residual(pair, b);
  for (int i = threadIdx.x; i < kFfdBlock * cache.code_bytes; i += kThreads) {
    const int t = i / cache.code_bytes, first = i % cache.code_bytes * per_byte;
    unsigned packed = 0;
    for (int d = first; d < min(dim, first + per_byte); ++d) {
      const FfdCode coded = ffd_code(cache.element(keys[t * dim + d]), cache.step(amax[d]), z);
      packed |= static_cast<unsigned>(coded.code) << ((d - first) * bits);
      residual[t * dim + d] = __nv_cvt_float_to_fp8(coded.residual, __NV_SATFINITE, __NV_E4M3);
    }
    codes[i] = static_cast<std::uint8_t>(packed);
  }
}

__device__ void copy(const std::uint16_t* from, std::uint16_t* to, int count) {
  for (int i = threadIdx.x; i < count; i += kThreads) to[i] = from[i];
}

struct Rows {
  const std::uint16_t *k, *v;
  std::int64_t stride;  ///< tokens from one pair to the next
};

/// Full blocks.
__global__ void __launch_bounds__(kThreads) blocks_kernel(RowMajorCache cache, Rows rows) {
  const int pair = blockIdx.x, blocks = cache.length(pair) / kFfdBlock;
  for (int b = blockIdx.y; b < blocks; b += gridDim.y) {
    const std::int64_t first = pair * rows.stride + static_cast<std::int64_t>(b) * kFfdBlock;
    quantize_block(cache, rows.k + first * cache.shape.head_dim, pair, b);
    copy(rows.v + first * cache.shape.value_dim, cache.values(pair, b), kFfdBlock * cache.shape.value_dim);
  }
}

/// The 16-bit keys and values that are kept beside the blocks: what appending token by token would leave.
__global__ void __launch_bounds__(kThreads) last_tokens_kernel(RowMajorCache cache, Rows rows) {
  const int pair = blockIdx.x, t = blockIdx.y, length = cache.length(pair);
  const int dim = cache.shape.head_dim, value_dim = cache.shape.value_dim;
  const auto key = [&](int b) {
    return rows.k + (pair * rows.stride + static_cast<std::int64_t>(b) * kFfdBlock + t) * dim;
  };
  if (t < length) {
    copy(key(0), cache.sink_keys(pair) + t * dim, dim);
    const int b = (length - 1 - t) / kFfdBlock;  // the newest block that has a token t
    copy(rows.v + (pair * rows.stride + static_cast<std::int64_t>(b) * kFfdBlock + t) * value_dim,
         cache.tail_values(pair) + t * value_dim, value_dim);
    copy(key(b), cache.last_keys(pair, b) + t * dim, dim);
    if (b > 0) copy(key(b - 1), cache.last_keys(pair, b - 1) + t * dim, dim);
  }
}

__global__ void __launch_bounds__(kThreads) append_kernel(RowMajorCache cache, Rows rows) {
  const int pair = blockIdx.x, length = cache.length(pair), b = length / kFfdBlock, t = length % kFfdBlock;
  const int dim = cache.shape.head_dim, value_dim = cache.shape.value_dim;
  if (length >= cache.shape.max_tokens) return;
  const std::uint16_t* key = rows.k + static_cast<std::int64_t>(pair) * dim;
  copy(key, cache.last_keys(pair, b) + t * dim, dim);
  if (b == 0) copy(key, cache.sink_keys(pair) + t * dim, dim);
  copy(rows.v + static_cast<std::int64_t>(pair) * value_dim, cache.tail_values(pair) + t * value_dim, value_dim);
  if (t + 1 < kFfdBlock) return;
  __syncthreads();
  quantize_block(cache, cache.last_keys(pair, b), pair, b);
  copy(cache.tail_values(pair), cache.values(pair, b), kFfdBlock * value_dim);
}

Rows rows_of(const void* k, const void* v, std::int64_t stride) {
  return {static_cast<const std::uint16_t*>(k), static_cast<const std::uint16_t*>(v), stride};
}

}  // namespace
}  // namespace ffd_reference

using namespace ffd_reference;

FfdBlockBytes ffd_reference_block_bytes(const FfdCacheShape& shape) {
  const std::int64_t code_bytes = (std::int64_t{shape.head_dim} * shape.bits + 7) / 8;
  return {4 * std::int64_t{shape.head_dim} + kFfdBlock * code_bytes, std::int64_t{kFfdBlock} * shape.head_dim,
          2 * std::int64_t{kFfdBlock} * shape.value_dim};
}

void cuda_ffd_reference_build(const FfdCacheShape& shape, const FfdCacheView& view, const void* k, const void* v,
                              std::int64_t stride, cudaStream_t stream) {
  const RowMajorCache cache = RowMajorCache(shape, view);
  const Rows rows = rows_of(k, v, stride);
  const auto pairs = static_cast<unsigned>(shape.pairs());
  if (cache.max_blocks > 0) {
    const dim3 grid(pairs, static_cast<unsigned>(std::min(cache.max_blocks, kMaxGridY)));
    blocks_kernel<<<grid, kThreads, 0, stream>>>(cache, rows);
    ATTEST_CUDA_LAUNCHED(blocks_kernel);
  }
  last_tokens_kernel<<<dim3(pairs, kFfdBlock), kThreads, 0, stream>>>(cache, rows);
  ATTEST_CUDA_LAUNCHED(last_tokens_kernel);
}

void cuda_ffd_reference_append(const FfdCacheShape& shape, const FfdCacheView& view, const void* k, const void* v,
                               cudaStream_t stream) {
  append_kernel<<<static_cast<unsigned>(shape.pairs()), kThreads, 0, stream>>>(RowMajorCache(shape, view),
                                                                               rows_of(k, v, 1));
  ATTEST_CUDA_LAUNCHED(append_kernel);
}

}  // namespace attest
