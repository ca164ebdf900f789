// Ratios of counts are rounded only once.
#include <gtest/gtest.h>

#include "analysis/metrics/ratio.cuh"
#include "tests/kernels/device_rows.h"

namespace attest::test {
namespace {

__global__ void ratio_kernel(const int2* pairs, int count, float* out) {
  const int i = static_cast<int>(threadIdx.x);
  if (i < count) out[i] = ratio(pairs[i].x, pairs[i].y);
}

class RatioCuda : public OnGpu {};

TEST_F(RatioCuda, RoundsOnceOrIsNaN) {
  // Counts above 2^24 may have no exact float, but their ratio must still be rounded only once.
  const std::vector<int2> pairs{{0, 1}, {1, 3}, {7, 7}, {0, 0}, {5, 0}, {16777217, 16777219}, {2147483647, 2147483646}};
  Gpu gpu;
  float* out = gpu.arena.take<float>(pairs.size());
  ratio_kernel<<<1, 32, 0, gpu.stream>>>(gpu.upload(pairs), static_cast<int>(pairs.size()), out);
  const std::vector<float> found = gpu.download(out, pairs.size());
  for (std::size_t i = 0; i < pairs.size(); ++i)
    if (pairs[i].y == 0) {
      EXPECT_TRUE(std::isnan(found[i])) << pairs[i].x;
    } else {
      EXPECT_EQ(found[i], static_cast<float>(double{1} * pairs[i].x / pairs[i].y)) << pairs[i].x << "/" << pairs[i].y;
    }
}

}  // namespace
}  // namespace attest::test
