// Magnitudes of all three element types order like the integers of their bits, so an integer maximum serves each, and
// neither its order nor that of the atomics matters.
#include <algorithm>

#include "kernels/device/cuda_check.h"
#include "kernels/device/octet.cuh"
#include "kernels/kv_formats/amax_cuda.h"

namespace attest {
namespace {

constexpr int kAmaxThreads = 256, kPerThread = 4;  // octets in flight

__device__ std::uint32_t magnitude_bits(float x) { return __float_as_uint(x) & 0x7FFFFFFFu; }

/// Block (x, y) reads a part of head y.
template <bool kWide>
__global__ void __launch_bounds__(kAmaxThreads) amax_kernel(DeviceTokens tokens, std::uint32_t* out) {
  const std::int64_t count = tokens.tokens * tokens.channels, base = blockIdx.y * count;
  const int pitch = count % kOctet == 0 ? kOctet : 1;  // else heads begin between octets
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kAmaxThreads * kOctet * kPerThread;
  std::uint32_t largest = 0;
  for (std::int64_t first = (static_cast<std::int64_t>(blockIdx.x) * kAmaxThreads * kPerThread + threadIdx.x) * kOctet;
       first < count; first += stride) {
    float x[kPerThread][kOctet];
    const auto place = [&](int i) {
      const std::int64_t at = first + static_cast<std::int64_t>(i) * kAmaxThreads * kOctet;
      return OctetPlace{base + at, static_cast<int>(min(static_cast<std::int64_t>(kOctet), count - at))};
    };
    load_octets<kWide>(tokens.type, tokens.data, pitch, place, x);
#pragma unroll
    for (int i = 0; i < kPerThread; ++i)
#pragma unroll
      for (int c = 0; c < kOctet; ++c) largest = max(largest, magnitude_bits(x[i][c]));
  }
  largest = __reduce_max_sync(0xFFFFFFFFu, largest);
  if (threadIdx.x % 32 == 0 && largest > 0) atomicMax(out + blockIdx.y, largest);
}

}  // namespace

void cuda_max_magnitudes(const DeviceTokens& tokens, int heads, float* out, cudaStream_t stream) {
  ATTEST_CUDA(cudaMemsetAsync(out, 0, static_cast<std::size_t>(heads) * sizeof(float), stream));
  const std::int64_t count = tokens.tokens * tokens.channels, per_block = kAmaxThreads * kOctet * kPerThread;
  if (count == 0 || heads == 0) return;
  const dim3 grid(static_cast<unsigned>(std::min<std::int64_t>((count + per_block - 1) / per_block, 256)),
                  static_cast<unsigned>(heads));
  const auto kernel = tokens.type == ElementType::float32 ? amax_kernel<true> : amax_kernel<false>;
  kernel<<<grid, kAmaxThreads, 0, stream>>>(tokens, reinterpret_cast<std::uint32_t*>(out));
  ATTEST_CUDA_LAUNCHED(amax_kernel);
}

}  // namespace attest
