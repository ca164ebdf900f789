// Every format's CUDA code gives the bits of its CPU code: the double rounded to float32, and what that left. Rows of
// many kinds, of every element type and many numbers of channels, from the middle of a layer.
#include <gtest/gtest.h>

#include "dumps/base/error.h"
#include "kernels/kv_formats/kv_format.h"
#include "kernels/kv_formats/kv_rows_cuda.h"
#include "tests/kernels/device_rows.h"
#include "tests/kernels/kv_formats/made_rows.h"

namespace attest::test {
namespace {

constexpr int kHeads = 3, kFirstHead = 1, kFirstToken = 2;
constexpr std::size_t kGuard = 64;  // floats behind the results, which must stay as they are

/// made_rows(), random rows with every bit of the type, and rows near its largest number.
std::vector<float> layer_of(ElementType type, int channels, std::int64_t& tokens) {
  std::vector<float> layer;
  Random random(static_cast<std::uint64_t>(channels) + 17);
  for (int head = 0; head < kHeads; ++head) {
    std::vector<Row> rows = made_rows(channels);
    for (int i = 0; i < 30; ++i) {
      Row row;
      const double size = std::ldexp(1.0, i - 20);
      for (int d = 0; d < channels; ++d) row.push_back(size * random.normal());
      rows.push_back(row);
    }
    rows.emplace_back(Row(static_cast<std::size_t>(channels), type == ElementType::float16 ? 65504.0 : 1e30));
    rows.back()[0] = -rows.back()[0] / 3;
    std::rotate(rows.begin(), rows.begin() + head * 5, rows.end());
    tokens = static_cast<std::int64_t>(rows.size());
    for (const Row& row : rows)
      for (double x : row)
        layer.push_back(
            static_cast<float>(to_type(type, type == ElementType::float16 ? std::clamp(x, -65504.0, 65504.0) : x)));
  }
  return layer;
}

class KvRowsCuda : public OnGpuWith<ElementType> {};

void expect_same_bits(const KvFormat& format, const KvRows& rows, const std::vector<float>& layer,
                      std::int64_t tokens) {
  const std::int64_t count = tokens - kFirstToken - 1;
  const int heads = kHeads - kFirstHead;
  const std::size_t own = static_cast<std::size_t>(count) * static_cast<std::size_t>(rows.channels), all = own * heads;
  const std::vector<float> scales =
      format.scale_divisor == 0 ? std::vector<float>{1, 1} : std::vector<float>{0.0123f, 37};
  Gpu gpu;
  const LayerBuffer bytes = rounded(rows.element_type, layer);
  auto *out = gpu.arena.take<float>(all + kGuard), *rest = gpu.arena.take<float>(all + kGuard);
  const DeviceKvRows on{
      .tokens = {rows.element_type, gpu.upload(std::vector<std::byte>(bytes.data(), bytes.data() + bytes.size())),
                 tokens, rows.channels},
      .first_head = kFirstHead,
      .num_heads = heads,
      .first_token = kFirstToken,
      .num_tokens = count,
      .scales = gpu.upload(scales),
      .out = out,
      .low = rest,
      .stream = gpu.stream};
  format.cuda(rows, on);
  const std::vector<float> found = gpu.download(out, all + kGuard), left = gpu.download(rest, all + kGuard);
  std::size_t finite = 0;
  for (int h = 0; h < heads; ++h) {
    std::vector<double> expected(own);
    format.apply(rows, scales[static_cast<std::size_t>(h)],
                 layer.data() + ((kFirstHead + h) * tokens + kFirstToken) * rows.channels, count, expected.data(),
                 rows.channels);
    for (std::size_t i = 0; i < own; ++i) {
      const std::size_t at = static_cast<std::size_t>(h) * own + i;
      const auto high = static_cast<float>(expected[i]);
      if (!std::isfinite(high)) {
        ASSERT_FALSE(std::isfinite(found[at])) << format.name << ": " << expected[i];
        continue;
      }
      ++finite;
      ASSERT_EQ(found[at], high) << format.name << (rows.keys ? ", key" : ", value") << " of " << rows.channels
                                 << " channels, head " << h << ", row " << i / static_cast<std::size_t>(rows.channels)
                                 << ", channel " << i % static_cast<std::size_t>(rows.channels);
      ASSERT_EQ(left[at], static_cast<float>(expected[i] - static_cast<double>(high))) << format.name;
    }
  }
  EXPECT_GT(finite, all / 2) << format.name;
  for (std::size_t i = all; i < found.size(); ++i)
    ASSERT_TRUE(std::isnan(found[i]) && std::isnan(left[i])) << format.name << " wrote behind its rows";
  auto* alone = gpu.arena.take<float>(all);
  DeviceKvRows without = on;
  without.out = alone;
  without.low = nullptr;
  format.cuda(rows, without);
  EXPECT_EQ(std::memcmp(gpu.download(alone, all).data(), found.data(), all * sizeof(float)), 0) << format.name;
}

TEST_P(KvRowsCuda, AreTheBitsOfTheCpu) {
  int compared = 0;
  for (const int channels : {1, 2, 4, 8, 16, 32, 64, 70, 80, 96, 128, 160, 192, 256, 320, 512, 576, 1024}) {
    std::int64_t tokens = 0;
    const std::vector<float> layer = layer_of(GetParam(), channels, tokens);
    for (const KvFormat* format : kv_formats())
      for (const bool keys : {true, false})
        for (const bool rotate : {true, false}) {
          const KvRows rows{.keys = keys,
                            .channels = channels,
                            .shared_values = keys && channels % 64 == 0 ? channels / 128 * 128 : 0,
                            .rotate = rotate,
                            .element_type = GetParam()};
          if ((!keys && !format->of_values) || !format->fault(rows).empty()) continue;
          if (!rotate && format->name[0] != 'q') continue;
          ASSERT_NE(format->cuda, nullptr) << format->name;
          expect_same_bits(*format, rows, layer, tokens);
          if (HasFatalFailure()) return;
          ++compared;
        }
  }
  EXPECT_GT(compared, 300);
}

TEST_P(KvRowsCuda, TooManyChannelsAreRefused) {
  Gpu gpu;
  const KvRows rows{.channels = 2048, .element_type = GetParam()};
  const DeviceKvRows on{.tokens = {GetParam(), nullptr, 1, 2048}, .num_heads = 1, .num_tokens = 1};
  for (const char* name : {"turboquant4", "q4_0"}) EXPECT_THROW(find_kv_format(name)->cuda(rows, on), DeviceError);
}

INSTANTIATE_TEST_SUITE_P(Types, KvRowsCuda,
                         testing::Values(ElementType::float16, ElementType::bfloat16, ElementType::float32),
                         name_of_type);

}  // namespace
}  // namespace attest::test
