// Reductions over warps and blocks, and integer images that have the order of floats.
#include <gtest/gtest.h>

#include "kernels/device/block_reduce.cuh"
#include "tests/kernels/device_rows.h"

namespace attest::test {
namespace {

// Relative to the sum of magnitudes: five float32 additions within a warp and at most 31 across warps.
constexpr double kSum = 36 * 0x1p-24;

template <class T, class Combine>
__global__ void reduce_kernel(const T* values, T* of_warp, T* of_block) {
  __shared__ T shared[32];
  const T value = values[threadIdx.x];
  of_warp[threadIdx.x] = warp_reduce(value, Combine{});
  of_block[threadIdx.x] = block_reduce(value, shared, Combine{});
}

template <class T>
struct Reduced {
  std::vector<T> of_warp, of_block;
};

template <class Combine, class T>
Reduced<T> reduced(const std::vector<T>& values, Gpu& gpu) {
  T *of_warp = gpu.arena.take<T>(values.size()), *of_block = gpu.arena.take<T>(values.size());
  reduce_kernel<T, Combine>
      <<<1, static_cast<unsigned>(values.size()), 0, gpu.stream>>>(gpu.upload(values), of_warp, of_block);
  return {gpu.download(of_warp, values.size()), gpu.download(of_block, values.size())};
}

/// Every thread must have plain(values of its warp) and plain(all values).
template <class T, class Plain>
void expect_reduced(const std::vector<T>& values, const Reduced<T>& found, Plain&& plain) {
  const T all = plain(values);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto first = values.begin() + static_cast<std::ptrdiff_t>(i / 32 * 32);
    EXPECT_EQ(found.of_warp[i], plain(std::vector<T>(first, first + 32))) << "thread " << i << " of " << values.size();
    EXPECT_EQ(found.of_block[i], all) << "thread " << i << " of " << values.size();
  }
}

class BlockReduce : public OnGpuWith<int> {};

TEST_P(BlockReduce, GivesEveryThreadTheResult) {
  Gpu gpu;
  Random random(1);
  std::vector<float> values(GetParam());
  std::vector<double> whole(values.size());
  for (float& x : values) x = static_cast<float>(random.normal());
  for (double& x : whole) x = static_cast<double>(random.below(1 << 20));
  expect_reduced(values, reduced<Larger>(values, gpu),
                 [](const auto& x) { return *std::max_element(x.begin(), x.end()); });
  expect_reduced(values, reduced<Smaller>(values, gpu),
                 [](const auto& x) { return *std::min_element(x.begin(), x.end()); });
  expect_reduced(whole, reduced<Plus>(whole, gpu),
                 [](const auto& x) { return std::accumulate(x.begin(), x.end(), 0.0); });
}

TEST_P(BlockReduce, SumsRepeatBitForBit) {
  Gpu gpu;
  Random random(2);
  std::vector<float> values(GetParam());
  double sum = 0, magnitude = 0;
  for (float& x : values) {
    x = static_cast<float>(std::exp(4 * random.normal()) * random.normal());
    sum += x;
    magnitude += std::fabs(x);
  }
  const std::vector<float> found = reduced<Plus>(values, gpu).of_block;
  EXPECT_EQ(found, std::vector<float>(values.size(), found[0]));
  EXPECT_LE(std::fabs(found[0] - sum), kSum * magnitude);
  EXPECT_EQ(reduced<Plus>(values, gpu).of_block, found);
}

INSTANTIATE_TEST_SUITE_P(Threads, BlockReduce, testing::Values(32, 64, 128, 256, 512, 1024));

__global__ void reduce_each_kernel(float* out) {
  __shared__ float shared[32];
  float a = threadIdx.x, b = -static_cast<float>(threadIdx.x), c = threadIdx.x == 70 ? 9.0f : 1.0f;
  block_reduce_each(shared, Larger{}, a, b, c);
  if (threadIdx.x != 100) return;
  out[0] = a, out[1] = b, out[2] = c;
}

class BlockReduceEach : public OnGpu {};

TEST_F(BlockReduceEach, ReducesValuesApart) {
  Gpu gpu;
  auto* out = gpu.arena.take<float>(3);
  reduce_each_kernel<<<1, 128, 0, gpu.stream>>>(out);
  EXPECT_EQ(gpu.download(out, 3), (std::vector<float>{127, 0, 9}));
}

__global__ void images_kernel(const float* values, std::uint32_t* images, float* back) {
  images[threadIdx.x] = ordered_bits(values[threadIdx.x]);
  back[threadIdx.x] = from_ordered_bits(images[threadIdx.x]);
}

class OrderedImage : public OnGpu {};

TEST_F(OrderedImage, AscendsWithTheValue) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity(), kLargest = std::numeric_limits<float>::max(),
                  kMin = std::numeric_limits<float>::denorm_min();
  const std::vector<float> values{-kInfinity, -kLargest, -1.5f, -1, -1e-30f, -kMin,    -0.0f,    0.0f,
                                  kMin,       1e-30f,    1,     2,  1e30f,   kLargest, kInfinity};
  Gpu gpu;
  auto* images = gpu.arena.take<std::uint32_t>(values.size());
  auto* back = gpu.arena.take<float>(values.size());
  images_kernel<<<1, static_cast<unsigned>(values.size()), 0, gpu.stream>>>(gpu.upload(values), images, back);
  const std::vector<std::uint32_t> found = gpu.download(images, values.size());
  EXPECT_EQ(gpu.download(back, values.size()), values);
  for (std::size_t i = 0; i + 1 < values.size(); ++i) {
    if (values[i] == values[i + 1])
      EXPECT_EQ(found[i], found[i + 1]) << values[i];
    else
      EXPECT_LT(found[i], found[i + 1]) << values[i];
  }
  EXPECT_GT(found.front(), 0u);  // 0 is reserved for "no value"
}

}  // namespace
}  // namespace attest::test
