// Asynchronous copies: copied bytes, zero fill after them, and waiting for one group of copies.
#include <gtest/gtest.h>

#include "kernels/device/async_copy.cuh"
#include "tests/kernels/device_rows.h"

namespace attest::test {
namespace {

constexpr int kThreads = 64;

/// Each thread copies bytes[thread] of 16 bytes in the first group and all 16 bytes in the second.
__global__ void copy_kernel(const uint4* from, const int* bytes, uint4* to) {
  __shared__ uint4 first[kThreads], second[kThreads];
  const int thread = static_cast<int>(threadIdx.x);
  copy_async(first + thread, from + thread, bytes[thread]);
  commit_copies();
  copy_async(second + thread, from + kThreads + thread, 16);
  commit_copies();
  await_copies<1>();
  __syncthreads();
  to[thread] = first[kThreads - 1 - thread];
  await_copies<0>();
  __syncthreads();
  to[kThreads + thread] = second[kThreads - 1 - thread];
}

class AsyncCopy : public OnGpu {};

TEST_F(AsyncCopy, ArrivesAndIsZeroBehind) {
  Gpu gpu;
  Random random(7);
  std::vector<std::uint8_t> from(2 * kThreads * 16), expected(from.size(), 0);
  std::vector<int> bytes;
  for (std::uint8_t& x : from) x = static_cast<std::uint8_t>(1 + random.below(255));
  for (int thread = 0; thread < kThreads; ++thread) {
    bytes.push_back(thread % 17);
    const int to = kThreads - 1 - thread;
    std::copy_n(from.begin() + thread * 16, bytes.back(), expected.begin() + to * 16);
    std::copy_n(from.begin() + (kThreads + thread) * 16, 16, expected.begin() + (kThreads + to) * 16);
  }
  auto* to = gpu.arena.take<std::uint8_t>(from.size());
  copy_kernel<<<1, kThreads, 0, gpu.stream>>>(reinterpret_cast<const uint4*>(gpu.upload(from)), gpu.upload(bytes),
                                              reinterpret_cast<uint4*>(to));
  EXPECT_EQ(gpu.download(to, from.size()), expected);
}

}  // namespace
}  // namespace attest::test
