// Reductions over the query heads of a group, on the device. One thread per (group, item).
#include "kernels/device/block_reduce.cuh"
#include "kernels/device/cuda_check.h"
#include "kernels/rank/group_policy_cuda.h"

namespace attest {
namespace {

constexpr int kGroupPolicyThreads = 256;

template <class T, class Combine>
__global__ void group_kernel(RaggedRows<const T> in, int group, Combine combine, DeviceMatrix<T> out) {
  const int item = blockIdx.x * kGroupPolicyThreads + threadIdx.x, first = blockIdx.y * group;
  if (item >= in.counts[first]) return;
  T result = in.row(first)[item];
  for (int h = 1; h < group; ++h) result = combine(result, in.row(first + h)[item]);
  for (int h = 0; h < group; ++h) out.row(first + h)[item] = result;
}

template <class Combine, class T>
void launch(const RaggedRows<const T>& in, int group, const DeviceMatrix<T>& out, cudaStream_t stream) {
  if (in.rows == 0 || in.max_count == 0) return;
  const dim3 grid((in.max_count + kGroupPolicyThreads - 1) / kGroupPolicyThreads, in.rows / group);
  group_kernel<<<grid, kGroupPolicyThreads, 0, stream>>>(in, group, Combine{}, out);
  ATTEST_CUDA_LAUNCHED(group_kernel);
}

}  // namespace

void cuda_group_maxima(const RowValues& values, int group, const DeviceMatrix<float>& out, cudaStream_t stream) {
  launch<Larger>(values, group, out, stream);
}

void cuda_group_sums(const RowValues& values, int group, const DeviceMatrix<float>& out, cudaStream_t stream) {
  launch<Plus>(values, group, out, stream);
}

void cuda_group_minimum_levels(const RaggedRows<Level>& levels, int group, cudaStream_t stream) {
  if (group > 1) launch<Smaller>(RaggedRows<const Level>(levels), group, levels.items, stream);
}

}  // namespace attest
