// Filling a matrix with a function of row and token.
#include <gtest/gtest.h>

#include "kernels/base/level.h"
#include "kernels/device/fill_rows.cuh"
#include "tests/kernels/device_rows.h"

namespace attest::test {
namespace {

template <class T>
struct Place {
  int factor;
  __host__ __device__ T operator()(int row, int token) const { return static_cast<T>(row * factor + token + 1); }
};

template <class T>
void expect_filled(const std::vector<int>& visible) {
  Gpu gpu;
  std::vector<int> ends;
  for (int length : visible) ends.push_back((length + 7) / 8 * 8);
  DeviceRows rows;
  rows.num_rows = static_cast<int>(visible.size());
  rows.max_length = *std::max_element(visible.begin(), visible.end());
  rows.stride = (rows.max_length + 127) / 128 * 128;
  rows.visible = gpu.upload(visible);
  const RaggedRows<T> filled = gpu.take_rows<T>(ends, rows.stride);
  const Place<T> place{7};
  fill_rows(rows, place, filled.items.data, gpu.stream);
  const Rows<T> found = gpu.download_rows(filled);
  for (std::size_t r = 0; r < found.size(); ++r)
    for (int j = 0; j < ends[r]; ++j)
      ASSERT_EQ(found[r][j], j < visible[r] ? place(static_cast<int>(r), j) : T{0}) << "row " << r << ", token " << j;
}

class FillRows : public OnGpu {};

TEST_F(FillRows, WritesVisibleTokensAndZeroToTheNextEight) {
  for (const std::vector<int>& visible :
       {std::vector<int>{1}, {1, 7, 8, 9, 15, 16, 17}, {127, 128, 129, 2047, 2048, 2049, 4097, 1}}) {
    expect_filled<float>(visible);
    expect_filled<Level>(visible);
    expect_filled<double>(visible);
  }
}

}  // namespace
}  // namespace attest::test
