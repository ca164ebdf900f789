// Ranks and their correlation on the device against plain counting, also for orders of only some items of a row.
#include <gtest/gtest.h>

#include "kernels/rank/rank_correlation_cuda.h"
#include "tests/kernels/device_rows.h"
#include "tests/kernels/rank/value_rows.h"

namespace attest::test {
namespace {

constexpr std::uint32_t kMask = 0xFFFFF, kOtherBits = 0xABC00000;

/// Uploads orders as the sort of long rows leaves them: with other bits above those of the item.
RowOrder upload_order(const Rows<std::uint32_t>& orders, std::int64_t stride, Gpu& gpu) {
  Rows<std::uint32_t> entries = orders;
  for (std::vector<std::uint32_t>& row : entries)
    for (std::uint32_t& entry : row) entry |= kOtherBits;
  return {gpu.upload_rows(entries, stride).items, kMask};
}

Rows<float> rows_of_every_kind(int longest) {
  Random random(8);
  Rows<float> rows;
  for (const ValueKind& kind : kValueKinds)
    for (int count : {longest, longest - longest / 3, 1, 0})
      rows.push_back(values_of(kind, static_cast<std::size_t>(count), random));
  return rows;
}

template <class T>
Rows<std::uint32_t> orders_of(const Rows<T>& rows) {
  Rows<std::uint32_t> orders;
  for (const std::vector<T>& row : rows) orders.push_back(plain_order(row));
  return orders;
}

/// Cells in reverse order, two elements apart.
RowCells take_cells(std::size_t rows, Gpu& gpu) {
  std::vector<int> cells;
  for (std::size_t r = 0; r < rows; ++r) cells.push_back(static_cast<int>(2 * (rows - 1 - r)));
  return {gpu.arena.take<float>(2 * rows), gpu.upload(cells)};
}

void expect_cells(const RowCells& cells, const std::vector<float>& expected, const Gpu& gpu) {
  const std::vector<float> found = gpu.download(cells.values, 2 * expected.size());
  for (std::size_t r = 0; r < expected.size(); ++r) {
    const float rho = found[2 * (expected.size() - 1 - r)];
    if (std::isnan(expected[r]))
      EXPECT_TRUE(std::isnan(rho)) << "row " << r;
    else
      EXPECT_EQ(rho, expected[r]) << "row " << r;
  }
}

struct RowsToRank {
  Rows<float> rows;
  RaggedRows<float> in;
  RaggedRows<int> centred;  ///< to be filled
};

RowsToRank rows_to_rank(int longest, Gpu& gpu) {
  RowsToRank made{.rows = rows_of_every_kind(longest), .in = {}, .centred = {}};
  made.in = gpu.upload_rows(made.rows, longest + 3);
  std::vector<int> counts;
  for (const std::vector<float>& row : made.rows) counts.push_back(static_cast<int>(row.size()));
  made.centred = gpu.take_rows<int>(counts, longest + 1);
  return made;
}

class RankCorrelationCuda : public OnGpuWith<int> {};

TEST_P(RankCorrelationCuda, CentredRanksShareTheirMeanAmongTies) {
  Gpu gpu;
  const auto [rows, in, centred] = rows_to_rank(GetParam(), gpu);
  cuda_centred_ranks(in, upload_order(orders_of(rows), GetParam() + 2, gpu), centred.items, gpu.stream);
  const Rows<int> found = gpu.download_rows(centred);
  for (std::size_t r = 0; r < rows.size(); ++r)
    EXPECT_TRUE(found[r] == plain_centred_ranks(rows[r])) << kValueKinds[r / 4].name << ", " << rows[r].size();
}

TEST_P(RankCorrelationCuda, RowsAreSortedAndRankedAtOnce) {
  Gpu gpu;
  const auto [rows, in, centred] = rows_to_rank(GetParam(), gpu);
  const RowOrder order = cuda_sort_and_rank(in, centred.items, gpu.arena, gpu.stream);
  const Rows<int> ranks = gpu.download_rows(centred);
  const Rows<std::uint32_t> items =
      gpu.download_rows(RaggedRows<const std::uint32_t>{order.entries, in.counts, in.rows, in.max_count});
  for (std::size_t r = 0; r < rows.size(); ++r) {
    SCOPED_TRACE(std::string(kValueKinds[r / 4].name) + ", " + std::to_string(rows[r].size()));
    EXPECT_TRUE(ranks[r] == plain_centred_ranks(rows[r]));
    std::vector<std::uint32_t> own = items[r];
    for (std::uint32_t& item : own) item &= order.mask;
    EXPECT_TRUE(own == plain_order(rows[r]));
  }
}

TEST_P(RankCorrelationCuda, SpearmanOfSingleItems) {
  const Rows<float> rows = rows_of_every_kind(GetParam());
  Random random(9);
  Rows<int> exact;
  std::vector<float> expected;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    exact.push_back(plain_centred_ranks(values_of(kValueKinds[r % 5 == 4 ? 6 : r % 5], rows[r].size(), random)));
    expected.push_back(plain_rho(plain_centred_ranks(rows[r]), exact.back()));
  }
  Gpu gpu;
  const EntryEstimate estimate{.entries = gpu.upload_rows(rows, GetParam() + 3),
                               .order = upload_order(orders_of(rows), GetParam() + 2, gpu)};
  const RowCells rho = take_cells(rows.size(), gpu);
  const DeviceMatrix<const int> ranks = gpu.upload_rows(exact, GetParam() + 1).items;
  cuda_spearman(estimate, ranks, rho, gpu.arena, gpu.stream);
  expect_cells(rho, expected, gpu);
  const RowCells without_order = take_cells(rows.size(), gpu);
  cuda_spearman({.entries = estimate.entries}, ranks, without_order, gpu.arena, gpu.stream);
  expect_cells(without_order, expected, gpu);
}

// Rows with an order of more than 512 items are ranked in shared memory, without one also shorter ones, by fewer
// threads up to 2048 items. Rows of more than 32768 items do not fit there.
INSTANTIATE_TEST_SUITE_P(Lengths, RankCorrelationCuda,
                         testing::Values(1, 2, 33, 511, 512, 513, 1025, 2048, 2049, 4097, 32768, 32769));

class SpearmanOfEntriesCuda : public OnGpuWith<int> {};

TEST_P(SpearmanOfEntriesCuda, AllItemsOfAnEntryTie) {
  const Rows<float> rows = rows_of_every_kind(GetParam());
  for (int width : {2, 16, 24}) {
    Random random(10);
    Rows<int> exact;
    std::vector<float> expected;
    std::vector<int> items;
    for (const std::vector<float>& row : rows) {
      const int entries = static_cast<int>(row.size());
      items.push_back(entries == 0 ? 0 : (entries - 1) * width + 1 + static_cast<int>(random.below(width)));
      std::vector<float> of_items;
      for (int item = 0; item < items.back(); ++item) of_items.push_back(row[static_cast<std::size_t>(item / width)]);
      exact.push_back(plain_centred_ranks(values_of(kValueKinds[0], of_items.size(), random)));
      expected.push_back(plain_rho(plain_centred_ranks(of_items), exact.back()));
    }
    Gpu gpu;
    const EntryEstimate estimate{.entries = gpu.upload_rows(rows, GetParam()),
                                 .order = upload_order(orders_of(rows), GetParam(), gpu),
                                 .width = width,
                                 .items = gpu.upload(items)};
    const RowCells rho = take_cells(rows.size(), gpu);
    cuda_spearman(estimate, gpu.upload_rows(exact, GetParam() * width).items, rho, gpu.arena, gpu.stream);
    SCOPED_TRACE(width);
    expect_cells(rho, expected, gpu);
  }
}

INSTANTIATE_TEST_SUITE_P(Lengths, SpearmanOfEntriesCuda, testing::Values(1, 2, 33, 511, 512, 513, 1025));

class SomeOfAnOrderCuda : public OnGpuWith<int> {};

TEST_P(SomeOfAnOrderCuda, ItemsBelowALimit) {
  const Rows<std::uint32_t> orders = orders_of(rows_of_every_kind(GetParam()));
  Gpu gpu;
  std::vector<int> limits;
  Rows<std::uint32_t> expected;
  for (const std::vector<std::uint32_t>& order : orders) {
    const int count = static_cast<int>(order.size());
    limits.push_back(orders.size() % 3 == limits.size() % 3 ? count : count * static_cast<int>(limits.size() % 4) / 4);
    expected.emplace_back();
    for (std::uint32_t item : order)
      if (static_cast<int>(item) < limits.back()) expected.back().push_back(item);
  }
  const RaggedRows<float> values = gpu.upload_rows(rows_of_every_kind(GetParam()), GetParam());
  const RowOrder found =
      cuda_order_below(upload_order(orders, GetParam() + 1, gpu), values, gpu.upload(limits), gpu.arena, gpu.stream);
  Rows<std::uint32_t> items = gpu.download_rows(
      RaggedRows<const std::uint32_t>{found.entries, gpu.upload(limits), values.rows, values.max_count});
  for (std::vector<std::uint32_t>& row : items)
    for (std::uint32_t& item : row) item &= found.mask;
  EXPECT_TRUE(items == expected);
}

TEST_P(SomeOfAnOrderCuda, ItemsOfFlaggedEntries) {
  const Rows<std::uint32_t> orders = orders_of(rows_of_every_kind(GetParam()));
  for (int width : {1, 16, 100}) {
    Gpu gpu;
    Random random(11);
    Rows<std::uint8_t> flags;
    Rows<std::uint32_t> expected;
    std::vector<int> counts;
    for (std::size_t r = 0; r < orders.size(); ++r) {
      flags.emplace_back((orders[r].size() + static_cast<std::size_t>(width) - 1) / static_cast<std::size_t>(width));
      for (std::uint8_t& flag : flags.back()) flag = r % 6 == 5 ? 0 : static_cast<std::uint8_t>(random.below(3));
      expected.emplace_back();
      for (std::uint32_t item : orders[r])
        if (flags[r][item / static_cast<std::uint32_t>(width)] != 0) expected.back().push_back(item);
      counts.push_back(static_cast<int>(expected.back().size()));
    }
    const RaggedRows<float> values = gpu.upload_rows(rows_of_every_kind(GetParam()), GetParam());
    int* kept = gpu.arena.take<int>(orders.size());
    const RowOrder found =
        cuda_order_of_flagged(upload_order(orders, GetParam(), gpu), values,
                              gpu.upload_rows(flags, GetParam() + 5).items, width, kept, gpu.arena, gpu.stream);
    ASSERT_EQ(gpu.download(kept, counts.size()), counts) << width;
    Rows<std::uint32_t> items =
        gpu.download_rows(RaggedRows<const std::uint32_t>{found.entries, kept, values.rows, values.max_count});
    for (std::vector<std::uint32_t>& row : items)
      for (std::uint32_t& item : row) item &= found.mask;
    EXPECT_TRUE(items == expected) << width;
  }
}

INSTANTIATE_TEST_SUITE_P(Lengths, SomeOfAnOrderCuda, testing::Values(1, 100, 511, 512, 513, 4097));

}  // namespace
}  // namespace attest::test
