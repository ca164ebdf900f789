// Largest magnitudes on the device: of every head by itself, wherever the largest number is, and of whatever sign.
#include <gtest/gtest.h>

#include "kernels/kv_formats/amax_cuda.h"
#include "tests/kernels/device_rows.h"

namespace attest::test {
namespace {

class AmaxCuda : public OnGpuWith<ElementType> {};

TEST_P(AmaxCuda, OfEveryHead) {
  constexpr int kHeads = 3;
  for (const auto& [tokens, channels] : {std::pair(1, 1), {1, 128}, {3, 7}, {33, 70}, {1000, 64}, {9001, 128}}) {
    Gpu gpu;
    Random random(static_cast<std::uint64_t>(tokens + channels));
    const std::size_t count = static_cast<std::size_t>(tokens) * static_cast<std::size_t>(channels);
    std::vector<float> x(kHeads * count), expected(kHeads, 0.0f);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(to_type(GetParam(), random.normal()));
    for (std::size_t h = 0; h < kHeads; ++h) {  // at the end, at the beginning, in the middle of the head
      const std::size_t at = h * count + (h == 0 ? count - 1 : h == 1 ? 0 : count / 2);
      x[at] = static_cast<float>(to_type(GetParam(), (h % 2 == 0 ? -1 : 1) * 100.7 * static_cast<double>(h + 1)));
      expected[h] = std::fabs(x[at]);
    }
    const LayerBuffer bytes = rounded(GetParam(), x);
    const auto* data = gpu.upload(std::vector<std::byte>(bytes.data(), bytes.data() + bytes.size()));
    auto* found = gpu.arena.take<float>(kHeads + 1);
    cuda_max_magnitudes({GetParam(), data, tokens, channels}, kHeads, found, gpu.stream);
    EXPECT_EQ(gpu.download(found, kHeads), expected) << tokens << " tokens, " << channels << " channels";
  }
}

TEST_P(AmaxCuda, ZeroAndSubnormal) {
  Gpu gpu;
  const float tiny = GetParam() == ElementType::float16    ? 0x1p-24f
                     : GetParam() == ElementType::bfloat16 ? 0x1p-133f
                                                           : 0x1p-149f;
  std::vector<float> x(2 * 64, -0.0f);
  x[64 + 13] = -tiny;
  const LayerBuffer bytes = rounded(GetParam(), x);
  auto* found = gpu.arena.take<float>(2);
  cuda_max_magnitudes(
      {GetParam(), gpu.upload(std::vector<std::byte>(bytes.data(), bytes.data() + bytes.size())), 1, 64}, 2, found,
      gpu.stream);
  EXPECT_EQ(gpu.download(found, 2), (std::vector<float>{0, tiny}));
}

INSTANTIATE_TEST_SUITE_P(Types, AmaxCuda,
                         testing::Values(ElementType::float16, ElementType::bfloat16, ElementType::float32),
                         name_of_type);

}  // namespace
}  // namespace attest::test
