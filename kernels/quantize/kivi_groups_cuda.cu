// Computes the scales of the KIVI groups from their ranges.
#include "kernels/device/cuda_check.h"
#include "kernels/quantize/kivi_groups_cuda.cuh"
#include "kernels/quantize/ranges_cuda.h"

namespace attest {
namespace {

constexpr int kKiviGroupsThreads = 256;

/// In place: `scales` holds the largest elements on entry and the scales on return.
__global__ void key_scales_kernel(KiviQuantizer quantizer, const float* lowest, float* scales, std::int64_t count) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kKiviGroupsThreads + threadIdx.x;
  if (i < count) scales[i] = kivi_scale(quantizer, lowest[i], scales[i]);
}

__global__ void value_scales_kernel(KiviQuantizer quantizer, float2* groups, std::int64_t count) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kKiviGroupsThreads + threadIdx.x;
  if (i < count) groups[i].y = kivi_scale(quantizer, groups[i].x, groups[i].y);
}

unsigned blocks_for(std::int64_t count) {
  return static_cast<unsigned>((count + kKiviGroupsThreads - 1) / kKiviGroupsThreads);
}

}  // namespace

KiviKeys cuda_kivi_keys(const KiviQuantizer& quantizer, const DeviceRows& rows, const DeviceKeyValues& kv,
                        DeviceArena& arena, cudaStream_t stream) {
  const SegmentRanges ranges = cuda_segment_ranges(rows, kv, quantizer.group, arena, stream);
  const std::int64_t count = ranges.highest.elements();
  key_scales_kernel<<<blocks_for(count), kKiviGroupsThreads, 0, stream>>>(quantizer, ranges.lowest.data,
                                                                          ranges.highest.data, count);
  ATTEST_CUDA_LAUNCHED(key_scales_kernel);
  return {.quantizer = quantizer, .lowest = ranges.lowest, .scales = ranges.highest};
}

void cuda_kivi_value_groups(const KiviQuantizer& quantizer, const DeviceKeyValues& kv, std::int64_t vectors,
                            float2* groups, cudaStream_t stream) {
  cuda_channel_ranges(kv.all_values(), vectors, quantizer.group, groups, stream);
  const std::int64_t count = vectors * (kv.value_dim / quantizer.group);
  value_scales_kernel<<<blocks_for(count), kKiviGroupsThreads, 0, stream>>>(quantizer, groups, count);
  ATTEST_CUDA_LAUNCHED(value_scales_kernel);
}

}  // namespace attest
