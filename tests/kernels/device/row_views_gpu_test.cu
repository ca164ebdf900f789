// Views of device memory: addresses of rows and items, on host and device.
#include <gtest/gtest.h>

#include "kernels/device/row_views.h"
#include "tests/kernels/device_rows.h"

namespace attest::test {
namespace {

TEST(RowViews, KnowTheirRows) {
  int data[100] = {};
  const DeviceMatrix<int> matrix{data, 7};
  EXPECT_EQ(matrix.row(3), data + 21);
  EXPECT_TRUE(matrix);
  EXPECT_FALSE(DeviceMatrix<int>{});
  const DeviceMatrix<const int> read_only = matrix;
  EXPECT_EQ(read_only.row(2), data + 14);

  const ChannelTables<int> tables{data, 3, 4, 8};
  EXPECT_EQ(tables.row(2, 1), data + (2 * 4 + 1) * 8);
  EXPECT_EQ(tables.elements(), 96);
  const ChannelTables<const int> same = tables;
  EXPECT_EQ(same.row(1, 3), data + (4 + 3) * 8);
  EXPECT_EQ(same.elements(), 96);

  const int counts[] = {1, 2};
  const RaggedRows<int> rows{matrix, counts, 2, 5};
  const RaggedRows<const int> view = rows;
  EXPECT_EQ(view.row(1), data + 7);
  EXPECT_EQ(view.counts, counts);
  EXPECT_EQ(view.rows, 2);
  EXPECT_EQ(view.max_count, 5);

  EXPECT_FALSE(RowOrder{});
  EXPECT_FALSE(CountedOrder{});
  const std::uint32_t entries[] = {4};
  EXPECT_TRUE((CountedOrder{{{entries, 1}}, counts}));

  const int query[] = {2, 0};
  const QuerySettings<int> settings{data, 5, query};
  EXPECT_EQ(settings.of_row(0), data + 10);
  EXPECT_EQ(settings.of_row(1), data);
}

// Pointers must not wrap beyond 2^31 elements.
TEST(RowViews, CountIn64Bits) {
  const DeviceMatrix<char> matrix{nullptr, std::int64_t{1} << 30};
  EXPECT_EQ(matrix.row(8) - matrix.data, std::int64_t{1} << 33);
  const ChannelTables<char> tables{nullptr, 1 << 12, 1 << 12, 1 << 10};
  EXPECT_EQ(tables.elements(), std::int64_t{1} << 34);
  EXPECT_EQ(tables.row(1 << 11, 5) - tables.data, (std::int64_t{1} << 33) + 5 * 1024);
}

__global__ void items_kernel(RowOrder order, QuerySettings<int> settings, int* items, int* firsts) {
  const int row = blockIdx.x, place = static_cast<int>(threadIdx.x);
  items[row * static_cast<int>(blockDim.x) + place] = order(row, place);
  if (place == 0) firsts[row] = *settings.of_row(row);
}

class RowOrderTest : public OnGpu {};

TEST_F(RowOrderTest, ItemsAreTheMaskedBits) {
  Gpu gpu;
  const Rows<std::uint32_t> entries{{0xABC00001, 0x00012345, 0xFFFFFFFF}, {0x80000000, 0x000FFFFE, 0x12300002}};
  const RowOrder order{gpu.upload_rows(entries, 5).items, 0xFFFFF};
  const QuerySettings<int> settings{gpu.upload(std::vector<int>{10, 11, 20, 21}), 2,
                                    gpu.upload(std::vector<int>{1, 0})};
  int *items = gpu.arena.take<int>(6), *firsts = gpu.arena.take<int>(2);
  items_kernel<<<2, 3, 0, gpu.stream>>>(order, settings, items, firsts);
  EXPECT_EQ(gpu.download(items, 6), (std::vector<int>{1, 0x12345, 0xFFFFF, 0, 0xFFFFE, 2}));
  EXPECT_EQ(gpu.download(firsts, 2), (std::vector<int>{20, 10}));
}

}  // namespace
}  // namespace attest::test
