// Number of multiprocessors, and shared memory above the default limit per block.
#include <gtest/gtest.h>

#include "kernels/device/multiprocessor.h"
#include "tests/kernels/device_rows.h"

namespace attest::test {
namespace {

__global__ void last_of_shared_kernel(int count, int* out) {
  extern __shared__ int shared[];
  for (int i = threadIdx.x; i < count; i += blockDim.x) shared[i] = i;
  __syncthreads();
  if (threadIdx.x == 0) *out = shared[count - 1];
}

class Multiprocessor : public OnGpu {};

TEST_F(Multiprocessor, BlocksMayHaveTheLargestSharedMemory) {
  Gpu gpu;
  const std::size_t bytes = largest_shared_memory();
  EXPECT_GT(bytes, std::size_t{48} << 10);
  EXPECT_GT(num_multiprocessors(), 0);
  auto* out = gpu.arena.take<int>(1);
  allow_shared_memory(last_of_shared_kernel, bytes);
  last_of_shared_kernel<<<1, 256, bytes, gpu.stream>>>(static_cast<int>(bytes / 4), out);
  ATTEST_CUDA_LAUNCHED(last_of_shared_kernel);
  EXPECT_EQ(gpu.download(out, 1)[0], static_cast<int>(bytes / 4) - 1);
}

}  // namespace
}  // namespace attest::test
