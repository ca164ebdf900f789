// Scales of FFD's thumbnails from the range of every (block, channel).
#include "kernels/quantize/ffd_thumbnail_cuda.cuh"
#include "kernels/quantize/ranges_cuda.h"

namespace attest {
namespace {

constexpr int kThreads = 256;

/// max(a / z, 1e-8) of the largest magnitude a.
__device__ float scale_of(const FfdQuantizer& quantizer, float lowest, float highest) {
  const float z = static_cast<float>((1 << quantizer.bits) - 1) / 2;
  const float scale = fmaxf(__fdiv_rn(fmaxf(fabsf(lowest), fabsf(highest)), z), 1e-8f);
  return quantizer.arithmetic == QuantArithmetic::dump ? rounded_to(quantizer.element_type, scale) : scale;
}

__global__ void block_scales_kernel(FfdQuantizer quantizer, const float* lowest, float* scales, std::int64_t count) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < count) scales[i] = scale_of(quantizer, lowest[i], scales[i]);
}

__global__ void sequence_scales_kernel(FfdQuantizer quantizer, const float* lowest, const float* highest, int segments,
                                       int padded, const int* origins, const int* full_blocks, float* scales) {
  const int channel = blockIdx.x * kThreads + threadIdx.x, p = blockIdx.y;
  if (channel >= padded) return;
  float low = 0, high = 0;
  const std::int64_t first = static_cast<std::int64_t>(origins[p]) * segments * padded + channel;
  for (int b = 0; b < full_blocks[p]; ++b) {
    low = fminf(low, lowest[first + static_cast<std::int64_t>(b) * padded]);
    high = fmaxf(high, highest[first + static_cast<std::int64_t>(b) * padded]);
  }
  scales[static_cast<std::int64_t>(p) * padded + channel] = scale_of(quantizer, low, high);
}

}  // namespace

void ffd_block_scales(const FfdQuantizer& quantizer, const DeviceRows& rows, const DeviceKeyValues& kv, int block,
                      float* scales, float* spare, cudaStream_t stream) {
  segment_ranges(rows, kv, block, spare, scales, stream);
  const std::int64_t count =
      static_cast<std::int64_t>(rows.num_origins) * segments_of(rows.max_length, block) * padded_channels(kv.head_dim);
  block_scales_kernel<<<static_cast<unsigned>((count + kThreads - 1) / kThreads), kThreads, 0, stream>>>(
      quantizer, spare, scales, count);
  ATTEST_CUDA_LAUNCHED(block_scales_kernel);
}

void ffd_sequence_scales(const FfdQuantizer& quantizer, const DeviceRows& rows, const DeviceKeyValues& kv, int block,
                         const int* origins, const int* full_blocks, int count, float* scales, float* lowest,
                         float* highest, cudaStream_t stream) {
  segment_ranges(rows, kv, block, lowest, highest, stream);
  const int padded = padded_channels(kv.head_dim);
  const dim3 grid((padded + kThreads - 1) / kThreads, count);
  sequence_scales_kernel<<<grid, kThreads, 0, stream>>>(quantizer, lowest, highest, segments_of(rows.max_length, block),
                                                        padded, origins, full_blocks, scales);
  ATTEST_CUDA_LAUNCHED(sequence_scales_kernel);
}

}  // namespace attest
