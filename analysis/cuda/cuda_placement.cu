// Kernels that scatter values from a chunk's rows to the cells of the results.
#include "analysis/cuda/cuda_placement.h"
#include "kernels/device/cuda_check.h"
#include "kernels/device/not_defined.cuh"

namespace attest {
namespace {

constexpr int kPlacementThreads = 256;

__global__ void row_values_kernel(DeviceRows rows, const float* values, float* out) {
  const int row = blockIdx.x * kPlacementThreads + threadIdx.x;
  if (row < rows.num_rows) out[rows.cell[row]] = values[row];
}

__global__ void setting_values_kernel(DeviceRows rows, const float* values, SettingOffsets offsets, float* out) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kPlacementThreads + threadIdx.x;
  const int row = static_cast<int>(i / offsets.count), setting = static_cast<int>(i % offsets.count);
  if (row < rows.num_rows) out[offsets.at(rows, row, setting)] = values[i];
}

__global__ void undefined_kernel(float* values, std::int64_t count) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kPlacementThreads + threadIdx.x;
  if (i < count) values[i] = not_defined();
}

unsigned blocks_for(std::int64_t count) {
  return static_cast<unsigned>((count + kPlacementThreads - 1) / kPlacementThreads);
}

}  // namespace

void place_row_values(const DeviceRows& rows, const float* values, float* out, cudaStream_t stream) {
  row_values_kernel<<<blocks_for(rows.num_rows), kPlacementThreads, 0, stream>>>(rows, values, out);
  ATTEST_CUDA_LAUNCHED(row_values_kernel);
}

void place_setting_values(const DeviceRows& rows, const float* values, const SettingOffsets& offsets, float* out,
                          cudaStream_t stream) {
  setting_values_kernel<<<blocks_for(static_cast<std::int64_t>(rows.num_rows) * offsets.count), kPlacementThreads, 0,
                          stream>>>(rows, values, offsets, out);
  ATTEST_CUDA_LAUNCHED(setting_values_kernel);
}

void fill_undefined(float* values, std::int64_t count, cudaStream_t stream) {
  if (count == 0) return;
  undefined_kernel<<<blocks_for(count), kPlacementThreads, 0, stream>>>(values, count);
  ATTEST_CUDA_LAUNCHED(undefined_kernel);
}

}  // namespace attest
