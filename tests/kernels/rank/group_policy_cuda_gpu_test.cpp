// Maxima, sums and levels shared by the query heads of a group, on the device.
#include <gtest/gtest.h>

#include "kernels/rank/group_policy_cuda.h"
#include "tests/kernels/device_rows.h"
#include "tests/kernels/rank/value_rows.h"

namespace attest::test {
namespace {

constexpr int kLongest = 700;

/// Five groups; the rows of a group have equal length. Values are small integers, so that sums are exact.
template <class T>
Rows<T> random_rows(int group, std::uint64_t seed) {
  Random random(seed);
  Rows<T> rows;
  for (int count : {1, 0, 255, 257, kLongest})
    for (int h = 0; h < group; ++h) {
      rows.emplace_back();
      for (int i = 0; i < count; ++i) rows.back().push_back(static_cast<T>(random.below(1000)));
    }
  return rows;
}

/// Each row of a group gets the group's items combined by `combine`.
template <class T, class Combine>
Rows<T> of_groups(const Rows<T>& rows, int group, Combine&& combine) {
  Rows<T> out = rows;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const std::size_t first = r / static_cast<std::size_t>(group) * static_cast<std::size_t>(group);
    for (std::size_t i = 0; i < rows[r].size(); ++i) {
      T result = rows[first][i];
      for (std::size_t h = first + 1; h < first + static_cast<std::size_t>(group); ++h)
        result = combine(result, rows[h][i]);
      out[r][i] = result;
    }
  }
  return out;
}

template <class T>
std::vector<int> counts_of(const Rows<T>& rows) {
  std::vector<int> counts;
  for (const std::vector<T>& row : rows) counts.push_back(static_cast<int>(row.size()));
  return counts;
}

class GroupPolicyCuda : public OnGpuWith<int> {};

TEST_P(GroupPolicyCuda, MaximaAndSums) {
  const int group = GetParam();
  Rows<float> rows = random_rows<float>(group, 15);
  for (std::vector<float>& row : rows)
    for (float& x : row) x -= 500;
  for (bool sums : {false, true}) {
    const Rows<float> expected =
        of_groups(rows, group, [sums](float a, float b) { return sums ? a + b : std::max(a, b); });
    const auto launch = sums ? &cuda_group_sums : &cuda_group_maxima;
    Gpu gpu;
    const RaggedRows<float> in = gpu.upload_rows(rows, kLongest + 1), out = gpu.take_rows<float>(counts_of(rows), 800);
    launch(in, group, out.items, gpu.stream);
    EXPECT_TRUE(gpu.download_rows(out) == expected) << (sums ? "sums" : "maxima");
    EXPECT_TRUE(gpu.download_rows(in) == rows) << "what was read has changed";
    launch(in, group, in.items, gpu.stream);
    EXPECT_TRUE(gpu.download_rows(in) == expected) << "in place, " << (sums ? "sums" : "maxima");
  }
}

TEST_P(GroupPolicyCuda, LeastLevels) {
  const int group = GetParam();
  const Rows<Level> rows = random_rows<Level>(group, 16);
  Gpu gpu;
  const RaggedRows<Level> levels = gpu.upload_rows(rows, kLongest + 4);
  cuda_group_minimum_levels(levels, group, gpu.stream);
  EXPECT_TRUE(gpu.download_rows(levels) == of_groups(rows, group, [](Level a, Level b) { return std::min(a, b); }));
}

INSTANTIATE_TEST_SUITE_P(Groups, GroupPolicyCuda, testing::Values(1, 2, 4, 7, 16));

}  // namespace
}  // namespace attest::test
