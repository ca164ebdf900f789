// Scales from largest magnitudes, which only the device knows, or from numbers, which are uploaded.
#include <span>
#include <vector>

#include "kernels/device/cuda_check.h"
#include "kernels/kv_formats/kv_scale_cuda.h"

namespace attest {
namespace {

constexpr int kKvScaleThreads = 32;

__global__ void amax_scales_kernel(AmaxScale rule, const float* amax, int layer_heads, int first, int count,
                                   float* out) {
  float largest = 0;
  for (int h = 0; h < layer_heads; ++h) largest = fmaxf(largest, amax[h]);
  for (int i = threadIdx.x; i < count; i += kKvScaleThreads) {
    const float scale = __fdiv_rn(rule.of_head ? amax[first + i] : largest, rule.divisor);
    out[i] = scale == 0 ? 1.0f : fmaxf(scale, rule.min);
  }
}

}  // namespace

const float* cuda_kv_scales(const KvScale& scale, int layer, int first, int count, const float* amax, int layer_heads,
                            DeviceArena& arena, Uploads& uploads, cudaStream_t stream) {
  if (scale.needs_amax()) {
    auto* scales = arena.take<float>(static_cast<std::size_t>(count));
    amax_scales_kernel<<<1, kKvScaleThreads, 0, stream>>>(scale.from_amax(), amax, layer_heads, first, count, scales);
    ATTEST_CUDA_LAUNCHED(amax_scales_kernel);
    return scales;
  }
  std::vector<float> scales;
  for (int i = 0; i < count; ++i) scales.push_back(scale.of(layer, first + i, {}));
  return uploads.put(std::span<const float>(scales), arena, stream);
}

}  // namespace attest
