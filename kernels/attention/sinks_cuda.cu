// Learned sinks on the device. One block per (row, setting).
#include "kernels/attention/sinks.cuh"
#include "kernels/attention/sinks_cuda.h"
#include "kernels/device/cuda_check.h"

namespace attest {
namespace {

constexpr int kSinksThreads = 128;

__global__ void __launch_bounds__(kSinksThreads) add_sinks_kernel(DeviceRows rows, DeviceOutputs outputs) {
  const int row = blockIdx.x;
  const std::int64_t cell = static_cast<std::int64_t>(row) * outputs.num_settings + blockIdx.y;
  const double before = outputs.lse[cell], lse = lse_with_sink(before, rows.sink[row]), share = exp(before - lse);
  float* output = outputs.output + cell * outputs.value_dim;
  for (int d = threadIdx.x; d < outputs.value_dim; d += kSinksThreads)
    output[d] = static_cast<float>(share * output[d]);
  __syncthreads();
  if (threadIdx.x == 0) outputs.lse[cell] = lse;
}

}  // namespace

void cuda_add_sinks(const DeviceRows& rows, const DeviceOutputs& outputs, cudaStream_t stream) {
  if (rows.sink == nullptr || rows.num_rows == 0) return;
  add_sinks_kernel<<<dim3(rows.num_rows, outputs.num_settings), kSinksThreads, 0, stream>>>(rows, outputs);
  ATTEST_CUDA_LAUNCHED(add_sinks_kernel);
}

}  // namespace attest
