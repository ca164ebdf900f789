// Scale and soft-cap turn dot products into scores, and ExactKeys leaves keys unchanged.
#include <gtest/gtest.h>

#include "kernels/attention/score_targets.cuh"
#include "tests/kernels/device_rows.h"

namespace attest::test {
namespace {

// Relative to the score: products and quotient are rounded, and tanhf is off by two units in the last place.
constexpr double kRounded = 0x1p-20;

__global__ void score_kernel(const float* dots, int count, DeviceKeyValues kv, float* scores) {
  for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x))
    scores[i] = score_of(dots[i], kv);
}

std::vector<float> scores_of_dots(const std::vector<float>& dots, const DeviceKeyValues& kv) {
  Gpu gpu;
  float* scores = gpu.arena.take<float>(dots.size());
  score_kernel<<<1, 64, 0, gpu.stream>>>(gpu.upload(dots), static_cast<int>(dots.size()), kv, scores);
  return gpu.download(scores, dots.size());
}

class ScoreTargetsCuda : public OnGpu {};

TEST_F(ScoreTargetsCuda, ScaleThenCap) {
  Random random(2);
  std::vector<float> dots{0, 1e-20f, -1e-20f, 1e6f, -1e6f};
  for (int i = 0; i < 500; ++i) dots.push_back(static_cast<float>(random.normal() * std::exp2(random.uniform(-8, 10))));
  for (float scale : {1.0f, 0.088388346f})
    for (float softcap : {0.0f, 1.0f, 30.0f}) {
      DeviceKeyValues kv;
      kv.scale = scale;
      kv.softcap = softcap;
      const std::vector<float> found = scores_of_dots(dots, kv),
                               bare = scores_of_dots(dots, without_score_transform(kv));
      for (std::size_t i = 0; i < dots.size(); ++i) {
        const double s = static_cast<double>(scale) * static_cast<double>(dots[i]), cap = static_cast<double>(softcap);
        const double expected = cap > 0 ? cap * std::tanh(s / cap) : s;
        ASSERT_LE(std::fabs(static_cast<double>(found[i]) - expected), kRounded * std::fabs(expected))
            << dots[i] << " times " << scale << ", capped at " << softcap;
        ASSERT_EQ(bare[i], dots[i]);
      }
    }
}

TEST(BareProductsOf, AreOfTheSameKeys) {
  const int keys = 0, values = 0;
  const DeviceKeyValues kv{ElementType::float16, &keys, &values, 64, 48, 1000, 0.5f, 20};
  const DeviceKeyValues bare = without_score_transform(kv);
  EXPECT_EQ(bare.type, kv.type);
  EXPECT_EQ(bare.keys, &keys);
  EXPECT_EQ(bare.values, &values);
  EXPECT_EQ(bare.head_dim, 64);
  EXPECT_EQ(bare.value_dim, 48);
  EXPECT_EQ(bare.tokens, 1000);
  EXPECT_EQ(kv.scale, 0.5f) << "what was given has changed";
}

__global__ void exact_keys_kernel(float* keys) {
  float key[kOctet], rest[kOctet] = {};
  for (int i = 0; i < kOctet; ++i) key[i] = keys[i];
  ExactKeys{2}(KeyPlace{1, 2, 3, 8}, key, rest);
  for (int i = 0; i < kOctet; ++i) keys[i] = key[i] + rest[i];
}

TEST_F(ScoreTargetsCuda, ExactKeysStayAsTheyAre) {
  Gpu gpu;
  const std::vector<float> keys{1, -2, 3.25f, 0, 1e30f, -1e-30f, 7, 8};
  float* on_device = gpu.upload(keys);
  exact_keys_kernel<<<1, 1, 0, gpu.stream>>>(on_device);
  EXPECT_EQ(gpu.download(on_device, keys.size()), keys);
}

}  // namespace
}  // namespace attest::test
