// Ranges of keys for SALE quantisation. A thread block handles one block of 32 keys.
#include "kernels/device/cuda_check.h"
#include "kernels/quantize/sale_int4_cuda.cuh"

namespace attest {
namespace {

constexpr int kBlock = kSaleBlock;
constexpr int kLanes = 8;  // threads per key
constexpr int kSaleInt4Threads = kBlock * kLanes;

__global__ void __launch_bounds__(kSaleInt4Threads)
    key_ranges_kernel(SaleKeyScale kind, DeviceRows rows, DeviceKeyValues kv, DeviceMatrix<const float> means,
                      DeviceMatrix<float> absmax) {
  __shared__ float of_key[kBlock];
  const int first = blockIdx.x * kBlock, group = blockIdx.y, row = group * rows.group, visible = rows.visible[row];
  if (first >= visible) return;
  const int thread = static_cast<int>(threadIdx.x), slot = thread / kLanes, token = first + slot;
  const KeyOrigin origin = rows.origins[rows.origin[row]];
  const std::int64_t key = static_cast<std::int64_t>(origin.kv_head) * kv.tokens + origin.first_key + token;
  const float* mean = means.row(group);
  float maximum = 0;
  for (int channel = thread % kLanes * kOctet; token < visible && channel < kv.head_dim; channel += kLanes * kOctet) {
    float x[kOctet], of_mean[kOctet];
    load_octet(kv.type, kv.keys, key * kv.head_dim + channel, kv.head_dim - channel, kv.head_dim, x);
    load_floats(mean + channel, of_mean);
#pragma unroll
    for (int i = 0; i < kOctet; ++i) maximum = fmaxf(maximum, fabsf(__fsub_rn(x[i], of_mean[i])));
  }
  for (int offset = kLanes / 2; offset > 0; offset /= 2)
    maximum = fmaxf(maximum, __shfl_xor_sync(0xFFFFFFFFu, maximum, offset));
  if (thread % kLanes == 0) of_key[slot] = maximum;
  __syncthreads();
  if (thread >= kBlock || first + thread >= visible) return;
  maximum = of_key[thread];
  if (kind == SaleKeyScale::block)
    for (int i = 0; i < kBlock; i += 8)
      for (int of_pair = 0; of_pair < 2; ++of_pair) maximum = fmaxf(maximum, of_key[i + thread % 8 / 2 * 2 + of_pair]);
  absmax.row(group)[first + thread] = maximum;
}

}  // namespace

void cuda_sale_key_ranges(SaleKeyScale kind, const DeviceRows& rows, const DeviceKeyValues& kv,
                          const DeviceMatrix<const float>& means, const DeviceMatrix<float>& absmax,
                          cudaStream_t stream) {
  const dim3 grid((rows.max_length + kBlock - 1) / kBlock, rows.num_rows / rows.group);
  key_ranges_kernel<<<grid, kSaleInt4Threads, 0, stream>>>(kind, rows, kv, means, absmax);
  ATTEST_CUDA_LAUNCHED(key_ranges_kernel);
}

}  // namespace attest
