// Placing the row values of a chunk into the cells of the results.
#include <gtest/gtest.h>

#include "analysis/cuda/cuda_placement.h"
#include "tests/kernels/device_cases.h"
#include "tests/kernels/device_rows.h"

namespace attest::test {
namespace {

constexpr float kOther = -77;  // marks cells that nothing writes

std::vector<float> numbers(std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i) + 0.25f;
  return values;
}

class CudaPlacement : public OnGpuWith<Case> {};

TEST_P(CudaPlacement, RowsGoToTheirCells) {
  Gpu gpu;
  const DeviceLayer on(GetParam(), gpu);
  const int part = on.rows.num_rows - on.rows.num_rows / 3;  // a chunk may be part of the layer
  const DeviceRows rows = on.first_rows(part, 64, gpu);
  const std::vector<float> values = numbers(static_cast<std::size_t>(part));
  std::vector<float> expected(static_cast<std::size_t>(on.rows.num_rows), kOther);
  float* out = gpu.upload(expected);
  for (std::size_t r = 0; r < values.size(); ++r) expected[static_cast<std::size_t>(on.cell[r])] = values[r];
  place_row_values(rows, gpu.upload(values), out, gpu.stream);
  EXPECT_EQ(gpu.download(out, expected.size()), expected);
}

TEST_P(CudaPlacement, SettingsGoWhereTheyWereGiven) {
  Gpu gpu;
  const DeviceLayer on(GetParam(), gpu);
  const auto queries = static_cast<std::size_t>(on.layer.num_queries()), cells = on.visible.size();
  for (std::size_t count : {1u, 3u, 150u}) {
    const std::size_t total = count + 2, rows = cells - cells / 3;
    std::vector<int> places;  // every query has its own order
    for (std::size_t n = 0; n < queries; ++n)
      for (std::size_t i = 0; i < count; ++i) places.push_back(static_cast<int>((i * 7 + n) % count + n % 3));
    const std::vector<float> values = numbers(rows * count);
    std::vector<float> expected(cells * total, kOther);
    float* out = gpu.upload(expected);
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t i = 0; i < count; ++i) {
        const int place = places[static_cast<std::size_t>(on.query[r]) * count + i];
        expected[static_cast<std::size_t>(on.cell[r]) * total + static_cast<std::size_t>(place)] =
            values[r * count + i];
      }
    place_setting_values(on.first_rows(static_cast<int>(rows), 64, gpu), gpu.upload(values),
                         {gpu.upload(places), static_cast<int>(count), static_cast<int>(total)}, out, gpu.stream);
    EXPECT_EQ(gpu.download(out, expected.size()), expected) << count << " settings";
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, CudaPlacement, testing::ValuesIn(device_cases()), name_of_case);

class FillUndefined : public OnGpuWith<int> {};

TEST_P(FillUndefined, IsNaNUpToTheEnd) {
  Gpu gpu;
  const auto count = static_cast<std::size_t>(GetParam());
  float* out = gpu.upload(std::vector<float>(count + 1, kOther));
  fill_undefined(out, GetParam(), gpu.stream);
  const std::vector<float> found = gpu.download(out, count + 1);
  for (std::size_t i = 0; i < count; ++i) ASSERT_TRUE(std::isnan(found[i])) << "cell " << i;
  EXPECT_EQ(found[count], kOther) << "behind the end";
}

INSTANTIATE_TEST_SUITE_P(Counts, FillUndefined, testing::Values(0, 1, 255, 256, 257, 1000000));

}  // namespace
}  // namespace attest::test
