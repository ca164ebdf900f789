// Levels of tokens from levels of items (blocks, pages), and the share of tokens that each setting keeps.
#include <gtest/gtest.h>

#include "kernels/rank/token_levels_cuda.h"
#include "tests/kernels/device_rows.h"
#include "tests/kernels/rank/value_rows.h"

namespace attest::test {
namespace {

const std::vector<int> kVisible{1, 7, 8, 15, 16, 17, 127, 128, 129, 2047, 2048, 2049, 4097};

DeviceRows rows_of(const std::vector<int>& visible, Gpu& gpu) {
  DeviceRows rows;
  rows.num_rows = static_cast<int>(visible.size());
  rows.max_length = *std::max_element(visible.begin(), visible.end());
  rows.stride = (rows.max_length + 127) / 128 * 128;
  rows.visible = gpu.upload(visible);
  return rows;
}

/// Rows padded with level 0 to a multiple of eight tokens.
Rows<Level> padded(const Rows<Level>& rows) {
  Rows<Level> out = rows;
  for (std::vector<Level>& row : out) row.resize((row.size() + 7) / 8 * 8, 0);
  return out;
}

std::vector<int> ends_of(const std::vector<int>& visible) {
  std::vector<int> ends;
  for (int length : visible) ends.push_back((length + 7) / 8 * 8);
  return ends;
}

class TokenLevelsCuda : public OnGpuWith<int> {};

TEST_P(TokenLevelsCuda, AreThoseOfTheirItems) {
  const int width = GetParam();
  Random random(17);
  Rows<Level> items, expected, expected_partly;
  std::vector<int> covered;
  for (int length : kVisible) {
    items.emplace_back();
    for (int i = 0; i * width < length; ++i) items.back().push_back(static_cast<Level>(1 + random.below(60000)));
    covered.push_back(covered.size() % 3 == 0 ? length / width * width : static_cast<int>(random.below(length + 1)));
    expected.emplace_back();
    expected_partly.emplace_back();
    for (int j = 0; j < length; ++j) {
      expected.back().push_back(items.back()[static_cast<std::size_t>(j / width)]);
      expected_partly.back().push_back(j < covered.back() ? expected.back().back() : Level{0});
    }
  }
  Gpu gpu;
  const DeviceRows rows = rows_of(kVisible, gpu);
  const RaggedRows<Level> of_items = gpu.upload_rows(items, 4099),
                          all = gpu.take_rows<Level>(ends_of(kVisible), rows.stride),
                          partly = gpu.take_rows<Level>(ends_of(kVisible), rows.stride);
  cuda_token_levels(rows, of_items.items, width, nullptr, all.items.data, gpu.stream);
  cuda_token_levels(rows, of_items.items, width, gpu.upload(covered), partly.items.data, gpu.stream);
  EXPECT_TRUE(gpu.download_rows(all) == padded(expected));
  EXPECT_TRUE(gpu.download_rows(partly) == padded(expected_partly));
}

INSTANTIATE_TEST_SUITE_P(Widths, TokenLevelsCuda, testing::Values(1, 3, 16, 128, 5000));

class LevelsOfRowsCuda : public OnGpu {};

TEST_F(LevelsOfRowsCuda, AreAllTheSame) {
  Gpu gpu;
  const DeviceRows rows = rows_of(kVisible, gpu);
  const RaggedRows<Level> levels = gpu.take_rows<Level>(ends_of(kVisible), rows.stride);
  cuda_fill_levels(rows, 9, levels.items.data, gpu.stream);
  Rows<Level> expected;
  for (int length : kVisible) expected.emplace_back(static_cast<std::size_t>(length), Level{9});
  EXPECT_TRUE(gpu.download_rows(levels) == padded(expected));
}

TEST_F(LevelsOfRowsCuda, SharesCountWhatASettingKeeps) {
  for (int settings : {1, 2, 16, 300}) {
    Gpu gpu;
    Random random(18);
    Rows<Level> levels;
    std::vector<float> expected;
    for (int count : {0, 1, 2, 255, 256, 257, 4097}) {
      levels.emplace_back();
      for (int i = 0; i < count; ++i) levels.back().push_back(static_cast<Level>(random.below(settings + 1)));
      for (int i = 0; i < settings; ++i) {
        const auto kept = std::count_if(levels.back().begin(), levels.back().end(), [i](Level l) { return l <= i; });
        expected.push_back(count == 0 ? std::nanf("") : static_cast<float>(static_cast<double>(kept) / count));
      }
    }
    auto* shares = gpu.arena.take<float>(expected.size());
    cuda_level_shares(gpu.upload_rows(levels, 4100), settings, shares, gpu.stream);
    const std::vector<float> found = gpu.download(shares, expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (std::isnan(expected[i]))
        EXPECT_TRUE(std::isnan(found[i])) << "cell " << i << ", " << settings << " settings";
      else
        EXPECT_EQ(found[i], expected[i]) << "cell " << i << ", " << settings << " settings";
    }
  }
}

}  // namespace
}  // namespace attest::test
