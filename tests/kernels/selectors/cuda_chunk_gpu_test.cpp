// Helpers that selectors on the device get from a chunk: counts, scratch rows, settings by query, costs, batches.
#include <gtest/gtest.h>

#include "tests/kernels/device_cases.h"
#include "tests/kernels/selectors/device_chunk.h"

namespace attest::test {
namespace {

class CudaChunkTest : public OnGpuWith<Case> {};

TEST_P(CudaChunkTest, CountsAreKnownOnBothSides) {
  DeviceChunk on(GetParam());
  const auto rows = static_cast<std::size_t>(on.chunk.rows.num_rows);
  const RowCounts pages(on.chunk, [](std::int64_t visible) { return (visible + 15) / 16; });
  const RowCounts doubled(on.chunk, pages, [](std::int64_t count) { return 2 * count + 1; });
  int maximum = 0;
  std::vector<int> expected, expected_doubled;
  for (int visible : on.on.visible) {
    expected.push_back((visible + 15) / 16);
    expected_doubled.push_back(2 * expected.back() + 1);
    maximum = std::max(maximum, expected.back());
  }
  EXPECT_EQ(pages.host, expected);
  EXPECT_EQ(on.gpu.download(pages.device, rows), expected);
  EXPECT_EQ(pages.max, maximum);
  EXPECT_EQ(doubled.host, expected_doubled);
  EXPECT_EQ(on.gpu.download(doubled.device, rows), expected_doubled);
  EXPECT_EQ(doubled.max, 2 * maximum + 1);

  const RaggedRows<float> ragged = on.chunk.take_ragged<float>(pages);
  EXPECT_EQ(ragged.items.stride, maximum);
  EXPECT_EQ(ragged.counts, pages.device);
  EXPECT_EQ(ragged.rows, on.chunk.rows.num_rows);
  EXPECT_EQ(ragged.max_count, maximum);
  const RowValues values = on.chunk.values(on.chunk.exact, pages), all = on.chunk.visible_values(on.chunk.exact);
  EXPECT_EQ(values.counts, pages.device);
  EXPECT_EQ(values.max_count, maximum);
  EXPECT_EQ(values.row(1), on.chunk.exact + on.chunk.rows.stride);
  EXPECT_EQ(all.counts, on.chunk.rows.visible);
  EXPECT_EQ(all.max_count, on.chunk.rows.max_length);
}

// Kernels read eight levels at a time, so take_levels() sets the levels past the end of each row to 0.
TEST_P(CudaChunkTest, LevelsAreZeroBehindTheirRows) {
  DeviceChunk on(GetParam());
  const auto stride = static_cast<std::size_t>(on.chunk.rows.stride);
  const std::vector<Level> levels = on.gpu.download(on.chunk.take_levels(), on.on.visible.size() * stride);
  for (std::size_t r = 0; r < on.on.visible.size(); ++r)
    for (auto j = static_cast<std::size_t>(on.on.visible[r]); j < stride; ++j)
      ASSERT_EQ(levels[r * stride + j], 0) << "row " << r << ", place " << j;
}

TEST_P(CudaChunkTest, SettingsAreOrderedByQuery) {
  DeviceChunk on(GetParam());
  const auto queries = static_cast<std::size_t>(on.on.layer.num_queries());
  std::vector<AscendingGrid> grids(queries);
  for (std::size_t n = 0; n < queries; ++n) grids[n].values = {1.0 + static_cast<double>(n), 50.0, 100.0};
  const auto settings = query_settings<double>(
      on.chunk, grids, [](double value, std::int64_t visible) { return value * 10000 + static_cast<double>(visible); });
  EXPECT_EQ(settings.count, 3);
  EXPECT_EQ(settings.query, on.chunk.rows.query);
  const std::vector<double> found = on.gpu.download(settings.values, queries * 3);
  for (std::size_t r = 0; r < on.on.visible.size(); ++r)
    for (std::size_t i = 0; i < 3; ++i) {
      const auto n = static_cast<std::size_t>(on.on.query[r]);
      ASSERT_EQ(found[n * 3 + i], grids[n].values[i] * 10000 + on.on.visible[r]) << "row " << r;
    }
}

TEST_P(CudaChunkTest, ShiftsAreOfTheQueryAndKvHead) {
  DeviceChunk on(GetParam());
  const auto group = static_cast<std::size_t>(on.chunk.rows.group), groups = on.on.visible.size() / group;
  std::vector<AscendingGrid> grids(static_cast<std::size_t>(on.on.layer.num_queries()));
  for (std::size_t n = 0; n < grids.size(); ++n) grids[n].values = {1.0 + static_cast<double>(n), 50.0};
  std::vector<double> shifts;
  for (std::size_t g = 0; g < groups; ++g) shifts.push_back(0.25 * static_cast<double>(g));
  on.chunk.setting_shift = shifts;
  const auto settings = query_settings<double>(
      on.chunk, grids, [](double value, std::int64_t visible) { return value * 10000 + static_cast<double>(visible); });
  ASSERT_EQ(settings.count, 2);
  const std::vector<double> found = on.gpu.download(settings.values, groups * 2);
  const std::vector<int> entry = on.gpu.download(settings.query, on.on.visible.size());
  for (std::size_t r = 0; r < on.on.visible.size(); ++r)
    for (std::size_t i = 0; i < 2; ++i)
      ASSERT_EQ(
          found[static_cast<std::size_t>(entry[r]) * 2 + i],
          (grids[static_cast<std::size_t>(on.on.query[r])].values[i] + shifts[r / group]) * 10000 + on.on.visible[r])
          << "row " << r;
}

TEST_P(CudaChunkTest, OneCostPerQueryGroup) {
  DeviceChunk on(GetParam());
  const std::vector<IoCost> costs = group_costs(on.chunk, [](std::int64_t visible) {
    return IoCost{.fixed = 2.0 * static_cast<double>(visible), .per_kept_token = 3, .free_tokens = 1};
  });
  const auto group = static_cast<std::size_t>(on.chunk.rows.group);
  ASSERT_EQ(costs.size() * group, on.on.visible.size());
  for (std::size_t g = 0; g < costs.size(); ++g) {
    EXPECT_EQ(costs[g].fixed, 2.0 * on.on.visible[g * group]);
    EXPECT_EQ(costs[g].per_kept_token, 3);
    EXPECT_EQ(costs[g].free_tokens, 1);
  }
}

TEST_P(CudaChunkTest, BatchesAreCutWhereRowsDiffer) {
  DeviceChunk on(GetParam());
  const auto of_row = [&on](int row) { return on.on.visible[static_cast<std::size_t>(row)] / 100; };
  const std::vector<RowBatch> pieces = cut_batches(on.chunk, of_row);
  int row = 0, largest = 0;
  for (std::size_t p = 0; p < pieces.size(); ++p) {
    const RowBatch& piece = pieces[p];
    ASSERT_EQ(piece.first_row, row) << "piece " << p;
    ASSERT_EQ(piece.params, static_cast<int>(p));
    ASSERT_GT(piece.num_rows, 0);
    int length = 0;
    for (; row < piece.first_row + piece.num_rows; ++row) {
      EXPECT_EQ(of_row(row), of_row(piece.first_row)) << "row " << row;
      EXPECT_EQ(on.on.origin[static_cast<std::size_t>(row)], piece.origin) << "row " << row;
      length = std::max(length, on.on.length(row));
    }
    EXPECT_EQ(piece.length, length);
    largest = std::max(largest, piece.num_rows);
    // Pieces are as long as possible: at each border a new batch or another value begins.
    const bool new_batch = std::any_of(on.on.batches.begin(), on.on.batches.end(),
                                       [row](const RowBatch& batch) { return batch.first_row == row; });
    const bool last = row == on.chunk.rows.num_rows;
    EXPECT_TRUE(last || new_batch || of_row(row) != of_row(row - 1)) << "row " << row;
  }
  EXPECT_EQ(row, on.chunk.rows.num_rows);
  const DeviceRows cut = in_batches(on.chunk, pieces);
  EXPECT_EQ(cut.num_batches, static_cast<int>(pieces.size()));
  EXPECT_EQ(cut.max_batch_rows, largest);
  EXPECT_EQ(cut.visible, on.chunk.rows.visible);
  const std::vector<RowBatch> found = on.gpu.download(cut.batches, pieces.size());
  for (std::size_t p = 0; p < pieces.size(); ++p) EXPECT_EQ(found[p].first_row, pieces[p].first_row);
}

TEST_P(CudaChunkTest, KeepingAllIsExactAttention) {
  DeviceChunk on(GetParam());
  CudaSelection selection;
  cuda_keep_all(on.chunk, selection);
  EXPECT_EQ(selection.levels, nullptr);
  EXPECT_EQ(selection.read_scores, nullptr);
  EXPECT_EQ(selection.value_groups, nullptr);
  const double per_token = 2.0 * (on.on.kv.head_dim + on.on.kv.value_dim);
  const auto group = static_cast<std::size_t>(on.chunk.rows.group);
  ASSERT_EQ(selection.io.size() * group, on.on.visible.size());
  for (std::size_t g = 0; g < selection.io.size(); ++g) {
    const IoCost& cost = selection.io[g];
    const double tokens = on.on.visible[g * group];
    EXPECT_EQ(cost.fixed + cost.per_kept_token * (tokens - cost.free_tokens), per_token * tokens);
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, CudaChunkTest, testing::ValuesIn(device_cases()), name_of_case);

}  // namespace
}  // namespace attest::test
