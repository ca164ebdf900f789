// Fills FFD's cache in fragment order: all blocks of a layer, or a token at a time.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <algorithm>
#include <type_traits>

#include "kernels/decode/base/ffd_codes.cuh"
#include "kernels/decode/fused/ffd_fragments.cuh"
#include "kernels/decode/fused/ffd_fused_cuda.h"
#include "kernels/device/cuda_check.h"

namespace attest {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kMaxGridY = 65535;

template <class T>
__device__ float to_float(T x) {
  if constexpr (std::is_same_v<T, __half>)
    return __half2float(x);
  else
    return __bfloat162float(x);
}

/// e with 2^e >= x > 2^(e-1), or 0 for x = 0.
__device__ int exponent_not_below(float x) {
  if (x == 0) return 0;
  int e;
  return frexpf(x, &e) == 0.5f ? e - 1 : e;
}

/// Thumbnails and residuals of a block; key(token, channel). All threads of the CTA. Codes as in
/// quantize/ffd_thumbnail.h.
template <int D, int kBits, class Key>
__device__ void quantize_block(const Key& key, std::uint8_t* record, std::uint8_t* residual) {
  using Layout = FfdFragments<D, kBits>;
  constexpr float kZ = ((1 << kBits) - 1) / 2.0f;
  constexpr int kCodeWords = kFfdTiles * Layout::kTileCodes / 4;
  __shared__ float largest[D];
  __shared__ std::uint32_t codes[kCodeWords];
  for (int i = static_cast<int>(threadIdx.x); i < kCodeWords; i += kThreads) codes[i] = 0;
  for (int c = static_cast<int>(threadIdx.x); c < D; c += kThreads) {
    float a = 0;
    for (int token = 0; token < kFfdBlock; ++token) a = fmaxf(a, fabsf(key(token, c)));
    largest[c] = a;
  }
  __syncthreads();
  float top = 0;
  for (int c = 0; c < D; ++c) top = fmaxf(top, largest[c]);
  const int exponent = exponent_not_below(top);
  for (int c = static_cast<int>(threadIdx.x); c < D; c += kThreads)
    *reinterpret_cast<__half*>(record + Layout::scale_at(c)) = __float2half_rn(ldexpf(largest[c], 7 - exponent));
  if (threadIdx.x < 4)
    reinterpret_cast<float*>(record)[threadIdx.x] = threadIdx.x == 0 ? ldexpf(1.0f, exponent - 7) : 0.0f;
  for (int i = static_cast<int>(threadIdx.x); i < kFfdBlock * D; i += kThreads) {
    const int token = i / D, c = i % D;
    const FfdCode coded = ffd_code(key(token, c), ffd_step(largest[c], kZ), kZ);
    int word, bit;
    Layout::code_at(token, c, word, bit);
    atomicOr(&codes[word], static_cast<std::uint32_t>(coded.code) << bit);
    residual[Layout::residual_at(token, c)] = __nv_cvt_float_to_fp8(coded.residual, __NV_SATFINITE, __NV_E4M3);
  }
  __syncthreads();
  auto* to = reinterpret_cast<std::uint32_t*>(record + Layout::kHeader + Layout::kScaleBytes);
  for (int i = static_cast<int>(threadIdx.x); i < kCodeWords; i += kThreads) to[i] = codes[i];
}

struct BuildParams {
  FfdCacheView cache;
  int num_kv_heads = 0;
  std::int64_t max_blocks = 0, max_tokens = 0, stride = 0;
};

/// CTAs of a pair take its blocks in turn; the block after the last full one is the tail.
template <class T, int D, int kBits>
__global__ void __launch_bounds__(kThreads) build_kernel(BuildParams p, const T* k, const T* v) {
  using Layout = FfdFragments<D, kBits>;
  const std::int64_t pair = blockIdx.x, length = p.cache.lengths[pair / p.num_kv_heads], full = length / kFfdBlock;
  T* sink_keys = static_cast<T*>(p.cache.sink_keys) + pair * kFfdBlock * D;
  for (std::int64_t block = blockIdx.y; block <= full; block += gridDim.y) {
    const T* keys = k + (pair * p.stride + block * kFfdBlock) * D;
    const T* values = v + (pair * p.stride + block * kFfdBlock) * D;
    const auto tokens = static_cast<int>(min(length - block * kFfdBlock, static_cast<std::int64_t>(kFfdBlock)));
    T* last_keys = static_cast<T*>(p.cache.last_keys) + (pair * 2 + block % 2) * kFfdBlock * D;
    T* to_values = block == full ? static_cast<T*>(p.cache.tail_values) + pair * kFfdBlock * D
                                 : static_cast<T*>(p.cache.values) + (pair * p.max_blocks + block) * kFfdBlock * D;
    for (int i = static_cast<int>(threadIdx.x); i < kFfdBlock * D; i += kThreads) {
      const int token = i / D, c = i % D;
      const T key = token < tokens ? keys[i] : T(0.0f);
      if (block >= full - 1) last_keys[Layout::key_at(token, c)] = key;
      if (block == 0) sink_keys[Layout::key_at(token, c)] = key;
      to_values[Layout::value_at(token, c)] = token < tokens ? values[i] : T(0.0f);
    }
    if (block == full) return;
    const std::int64_t at = pair * p.max_blocks + block;
    quantize_block<D, kBits>([&](int token, int c) { return to_float(keys[token * D + c]); },
                             p.cache.records + at * Layout::kRecord, p.cache.residual + at * kFfdBlock * D);
  }
}

/// A CTA per pair.
template <class T, int D, int kBits>
__global__ void __launch_bounds__(kThreads) append_kernel(BuildParams p, const T* k, const T* v) {
  using Layout = FfdFragments<D, kBits>;
  const std::int64_t pair = blockIdx.x, length = p.cache.lengths[pair / p.num_kv_heads];
  if (length >= p.max_tokens) return;
  const std::int64_t block = length / kFfdBlock;
  const auto token = static_cast<int>(length % kFfdBlock);
  T* keys = static_cast<T*>(p.cache.last_keys) + (pair * 2 + block % 2) * kFfdBlock * D;
  T* tail = static_cast<T*>(p.cache.tail_values) + pair * kFfdBlock * D;
  T* sink = static_cast<T*>(p.cache.sink_keys) + pair * kFfdBlock * D;
  for (int c = static_cast<int>(threadIdx.x); c < D; c += kThreads) {
    keys[Layout::key_at(token, c)] = k[pair * D + c];
    if (block == 0) sink[Layout::key_at(token, c)] = k[pair * D + c];
    tail[Layout::value_at(token, c)] = v[pair * D + c];
  }
  if (token + 1 < kFfdBlock) return;
  __syncthreads();
  const std::int64_t at = pair * p.max_blocks + block;
  quantize_block<D, kBits>([&](int row, int c) { return to_float(keys[Layout::key_at(row, c)]); },
                           p.cache.records + at * Layout::kRecord, p.cache.residual + at * kFfdBlock * D);
  T* values = static_cast<T*>(p.cache.values) + at * kFfdBlock * D;
  for (int i = static_cast<int>(threadIdx.x); i < kFfdBlock * D; i += kThreads) {
    values[i] = tail[i];
    tail[i] = T(0.0f);  // a weight of 0 times what is there must be 0
  }
}

/// Calls f.template operator()<T, D, kBits>() for the shape.
template <class F>
void with_shape(const FfdCacheShape& s, const F& f) {
  const auto with_type = [&]<class T>() {
    if (s.head_dim == 64) return f.template operator()<T, 64, 2>();
    if (s.bits == 4) return f.template operator()<T, 128, 4>();
    if (s.bits == 8) return f.template operator()<T, 128, 8>();
    return f.template operator()<T, 128, 2>();
  };
  s.element_type == ElementType::float16 ? with_type.template operator()<__half>()
                                         : with_type.template operator()<__nv_bfloat16>();
}

BuildParams build_params(const FfdCacheShape& s, const FfdCacheView& cache, std::int64_t stride) {
  return {.cache = cache,
          .num_kv_heads = s.num_kv_heads,
          .max_blocks = s.max_blocks(),
          .max_tokens = s.max_tokens,
          .stride = stride};
}

}  // namespace

FfdBlockBytes ffd_fragments_block_bytes(const FfdCacheShape& s) {
  FfdBlockBytes bytes{.residual = std::int64_t{kFfdBlock} * s.head_dim,
                      .values = std::int64_t{2} * kFfdBlock * s.value_dim};
  with_shape(s, [&]<class T, int D, int kBits>() { bytes.record = FfdFragments<D, kBits>::kRecord; });
  return bytes;
}

void cuda_ffd_fragments_build(const FfdCacheShape& s, const FfdCacheView& cache, const void* k, const void* v,
                              std::int64_t stride, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(s.pairs()), static_cast<unsigned>(std::min(s.max_blocks() + 1, kMaxGridY)));
  with_shape(s, [&]<class T, int D, int kBits>() {
    build_kernel<T, D, kBits><<<grid, kThreads, 0, stream>>>(build_params(s, cache, stride), static_cast<const T*>(k),
                                                             static_cast<const T*>(v));
  });
  ATTEST_CUDA_LAUNCHED(build_kernel);
}

void cuda_ffd_fragments_append(const FfdCacheShape& s, const FfdCacheView& cache, const void* k, const void* v,
                               cudaStream_t stream) {
  with_shape(s, [&]<class T, int D, int kBits>() {
    append_kernel<T, D, kBits><<<static_cast<unsigned>(s.pairs()), kThreads, 0, stream>>>(
        build_params(s, cache, 0), static_cast<const T*>(k), static_cast<const T*>(v));
  });
  ATTEST_CUDA_LAUNCHED(append_kernel);
}

}  // namespace attest
