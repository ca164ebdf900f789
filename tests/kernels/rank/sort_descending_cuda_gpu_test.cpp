// The device's row sort against std::stable_sort: every code path that a row length selects, with values that spread
// evenly over its buckets and values that do not.
#include <gtest/gtest.h>

#include "kernels/rank/sort_descending_cuda.h"
#include "tests/kernels/device_rows.h"
#include "tests/kernels/rank/value_rows.h"

namespace attest::test {
namespace {

class SortDescendingCuda : public OnGpuWith<int> {};

TEST_P(SortDescendingCuda, IsTheStableDescendingOrder) {
  const int longest = GetParam();
  Random random(7);
  Rows<float> rows;
  for (const ValueKind& kind : kValueKinds)
    for (int count : {longest, longest - longest / 3, 1, 0})
      rows.push_back(values_of(kind, static_cast<std::size_t>(count), random));
  const std::int64_t aligned = (longest + 127) / 128 * 128, odd = longest + 1 + longest % 2;
  for (std::int64_t stride : {aligned, odd}) {
    Gpu gpu;
    const RaggedRows<float> in = gpu.upload_rows(rows, stride);
    const RowOrder order = cuda_sort_descending(in, gpu.arena, gpu.stream);
    const Rows<std::uint32_t> found =
        gpu.download_rows(RaggedRows<const std::uint32_t>{order.entries, in.counts, in.rows, in.max_count});
    for (std::size_t r = 0; r < rows.size(); ++r) {
      std::vector<std::uint32_t> items = found[r];
      for (std::uint32_t& item : items) item &= order.mask;
      EXPECT_TRUE(items == plain_order(rows[r]))
          << kValueKinds[r / 4].name << ", " << rows[r].size() << " values, rows " << stride << " apart";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Lengths, SortDescendingCuda,
                         testing::Values(3, 512, 513, 2047, 2048, 2049, 5000, 8191, 8192, 8193, 20000, 32767, 32768,
                                         32769, 70000));

class SortNothingCuda : public OnGpu {};

TEST_F(SortNothingCuda, IsNoWork) {
  Gpu gpu;
  EXPECT_NO_THROW(cuda_sort_descending(RowValues{}, gpu.arena, gpu.stream));
  EXPECT_NO_THROW(cuda_sort_descending(gpu.upload_rows(Rows<float>(3), 8), gpu.arena, gpu.stream));
  gpu.stream.synchronize();
}

}  // namespace
}  // namespace attest::test
