// The search for the largest maxima against sorting: ties, -inf, everything and one.
#include <gtest/gtest.h>

#include "kernels/decode/base/top_k.cuh"
#include "tests/kernels/device_rows.h"

namespace attest::test {
namespace {

/// One thread counts.
__global__ void top_k_kernel(const float* maxima, int count, int n, std::uint8_t* kept) {
  const FfdTopK top = largest_maxima(count, n, [&](auto&& counts) {
    int number = 0;
    for (int i = 0; i < count; ++i) number += counts(ordered_bits(maxima[i]), i) ? 1 : 0;
    return number;
  });
  for (int i = 0; i < count; ++i) kept[i] = top.keeps(maxima[i], i) ? 1 : 0;
}

class TopK : public OnGpu {};

TEST_F(TopK, IsTheHeadOfTheSortedRow) {
  Gpu gpu;
  Random random(6);
  for (int count : {1, 2, 31, 33, 500})
    for (std::int64_t distinct : {1, 3, 40, 100000}) {
      std::vector<float> maxima(static_cast<std::size_t>(count));
      for (float& m : maxima)
        m = random.below(9) == 0 ? -std::numeric_limits<float>::infinity()
                                 : static_cast<float>(random.below(distinct) - distinct / 2) / 8;
      std::vector<int> order(maxima.size());
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
        return maxima[static_cast<std::size_t>(a)] > maxima[static_cast<std::size_t>(b)];
      });
      for (int n : {1, 2, count / 3, count - 1, count}) {
        if (n < 1 || n > count) continue;
        const DeviceArena::Scope scope(gpu.arena);
        std::vector<std::uint8_t> expected(maxima.size(), 0);
        for (int i = 0; i < n; ++i) expected[static_cast<std::size_t>(order[static_cast<std::size_t>(i)])] = 1;
        auto* kept = gpu.arena.take<std::uint8_t>(maxima.size());
        top_k_kernel<<<1, 1, 0, gpu.stream>>>(gpu.upload(maxima), count, n, kept);
        ASSERT_EQ(gpu.download(kept, maxima.size()), expected) << n << " of " << count << ", " << distinct;
      }
    }
}

}  // namespace
}  // namespace attest::test
