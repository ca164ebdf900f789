// Computes the FFD thumbnail scales from the range of each (block, channel).
#include "kernels/device/cuda_check.h"
#include "kernels/quantize/ffd_thumbnail_cuda.cuh"
#include "kernels/quantize/ranges_cuda.h"

namespace attest {
namespace {

constexpr int kThumbnailThreads = 256;

/// max(a / z, 1e-8), a the largest magnitude.
__device__ float scale_of(const FfdQuantizer& quantizer, float lowest, float highest) {
  const float z = static_cast<float>((1 << quantizer.bits) - 1) / 2;
  const float scale = fmaxf(__fdiv_rn(fmaxf(fabsf(lowest), fabsf(highest)), z), 1e-8f);
  return quantizer.arithmetic == QuantArithmetic::dump ? rounded_to(quantizer.element_type, scale) : scale;
}

/// In place: `scales` holds the largest elements on entry and the scales on return.
__global__ void block_scales_kernel(FfdQuantizer quantizer, const float* lowest, float* scales, std::int64_t count) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThumbnailThreads + threadIdx.x;
  if (i < count) scales[i] = scale_of(quantizer, lowest[i], scales[i]);
}

__global__ void sequence_scales_kernel(FfdQuantizer quantizer, SegmentRanges ranges, const int* origins,
                                       const int* full_blocks, ChannelTables<float> scales) {
  const int channel = blockIdx.x * kThumbnailThreads + threadIdx.x, p = blockIdx.y;
  if (channel >= scales.padded) return;
  float low = 0, high = 0;
  for (int b = 0; b < full_blocks[p]; ++b) {
    low = fminf(low, ranges.lowest.row(origins[p], b)[channel]);
    high = fmaxf(high, ranges.highest.row(origins[p], b)[channel]);
  }
  scales.row(p, 0)[channel] = scale_of(quantizer, low, high);
}

}  // namespace

ChannelTables<float> cuda_ffd_block_scales(const FfdQuantizer& quantizer, const DeviceRows& rows,
                                           const DeviceKeyValues& kv, int block, DeviceArena& arena,
                                           cudaStream_t stream) {
  const SegmentRanges ranges = cuda_segment_ranges(rows, kv, block, arena, stream);
  const std::int64_t count = ranges.highest.elements();
  block_scales_kernel<<<static_cast<unsigned>((count + kThumbnailThreads - 1) / kThumbnailThreads), kThumbnailThreads,
                        0, stream>>>(quantizer, ranges.lowest.data, ranges.highest.data, count);
  ATTEST_CUDA_LAUNCHED(block_scales_kernel);
  return ranges.highest;
}

ChannelTables<float> cuda_ffd_sequence_scales(const FfdQuantizer& quantizer, const DeviceRows& rows,
                                              const DeviceKeyValues& kv, int block, const int* origins,
                                              const int* full_blocks, int count, DeviceArena& arena,
                                              cudaStream_t stream) {
  const SegmentRanges ranges = cuda_segment_ranges(rows, kv, block, arena, stream);
  const int padded = ranges.lowest.padded;
  const ChannelTables<float> scales{
      arena.take<float>(static_cast<std::size_t>(count) * static_cast<std::size_t>(padded)), count, 1, padded};
  const dim3 grid((padded + kThumbnailThreads - 1) / kThumbnailThreads, count);
  sequence_scales_kernel<<<grid, kThumbnailThreads, 0, stream>>>(quantizer, ranges, origins, full_blocks, scales);
  ATTEST_CUDA_LAUNCHED(sequence_scales_kernel);
  return scales;
}

}  // namespace attest
