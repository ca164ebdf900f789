// The device's row sort against std::stable_sort: every path that a length can take, on values that suit its buckets
// and that do not.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <random>

#include "kernels/device/device_arena.h"
#include "kernels/device/stream.h"
#include "kernels/rank/sort_descending_cuda.h"

namespace attest {
namespace {

using Fill = std::function<void(std::vector<float>&, std::mt19937&)>;

struct Kind {
  const char* name;
  Fill fill;
};

float normal(std::mt19937& random) { return std::normal_distribution<float>()(random); }

const Kind kKinds[] = {
    {"normal",
     [](auto& row, auto& random) {
       for (float& x : row) x = normal(random);
     }},
    {"far_outliers",
     [](auto& row, auto& random) {
       for (float& x : row) x = random() % 900 == 0 ? 1e6f * normal(random) : normal(random);
     }},
    {"heavy_tail",
     [](auto& row, auto& random) {
       for (float& x : row) x = std::exp(8 * normal(random));
     }},
    {"two_lumps",
     [](auto& row, auto& random) {
       for (float& x : row) x = (random() % 2 == 0 ? -100.0f : 100.0f) + 1e-3f * normal(random);
     }},
    {"ties",
     [](auto& row, auto& random) {
       for (float& x : row) x = static_cast<float>(static_cast<int>(random() % 7) - 3);
     }},
    {"mostly_one_value",
     [](auto& row, auto& random) {
       for (float& x : row) x = random() % 50 == 0 ? normal(random) : 0.25f;
     }},
    {"constant",
     [](auto& row, auto&) {
       for (float& x : row) x = 3.5f;
     }},
    {"signed_zeros",
     [](auto& row, auto& random) {
       for (float& x : row) x = random() % 3 == 0 ? 0.0f : random() % 2 == 0 ? -0.0f : normal(random);
     }},
    {"huge",
     [](auto& row, auto& random) {
       for (float& x : row) x = 3e38f * std::tanh(normal(random));
     }},
    {"tiny",
     [](auto& row, auto& random) {
       for (float& x : row) x = 1e-44f * static_cast<float>(random() % 100);
     }},
    {"ascending",
     [](auto& row, auto&) {
       for (std::size_t i = 0; i < row.size(); ++i) row[i] = static_cast<float>(i);
     }},
};

std::vector<std::uint32_t> expected_order(const std::vector<float>& row) {
  std::vector<std::uint32_t> order(row.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) { return row[a] > row[b]; });
  return order;
}

template <class T>
T* to_device(const std::vector<T>& values, DeviceBuffer& buffer) {
  buffer.reserve(std::max<std::size_t>(1, values.size() * sizeof(T)));
  EXPECT_EQ(cudaMemcpy(buffer.data(), values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice), cudaSuccess);
  return reinterpret_cast<T*>(buffer.data());
}

class SortRowsTest : public testing::TestWithParam<int> {};

TEST_P(SortRowsTest, IsTheStableDescendingOrder) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) GTEST_SKIP() << "no CUDA device";
  const int longest = GetParam();
  const std::int64_t stride = (longest + 127) / 128 * 128;
  std::vector<std::vector<float>> rows;
  std::vector<float> matrix;
  std::vector<int> counts;
  std::mt19937 random(7);
  for (const Kind& kind : kKinds)
    for (int count : {longest, longest - longest / 3, 1, 0}) {
      rows.emplace_back(static_cast<std::size_t>(count));
      kind.fill(rows.back(), random);
      counts.push_back(count);
      matrix.insert(matrix.end(), rows.back().begin(), rows.back().end());
      matrix.resize(rows.size() * static_cast<std::size_t>(stride), std::nanf(""));
    }
  DeviceBuffer values, lengths;
  const int num_rows = static_cast<int>(rows.size());
  const RowValues in{to_device(matrix, values), stride, to_device(counts, lengths), num_rows, longest};
  DeviceArena arena(std::size_t{1} << 30);
  const CudaStream stream;
  const RowOrder order = sort_rows(in, arena, stream);
  stream.synchronize();
  for (std::size_t r = 0; r < rows.size(); ++r) {
    std::vector<std::uint32_t> own(rows[r].size());  // what stands behind a row's end is not defined
    ASSERT_EQ(cudaMemcpy(own.data(), order.items + static_cast<std::int64_t>(r) * order.stride,
                         own.size() * sizeof(std::uint32_t), cudaMemcpyDeviceToHost),
              cudaSuccess);
    for (std::uint32_t& item : own) item &= order.mask;
    EXPECT_TRUE(own == expected_order(rows[r])) << kKinds[r / 4].name << ", " << rows[r].size() << " values";
  }
}

INSTANTIATE_TEST_SUITE_P(Lengths, SortRowsTest,
                         testing::Values(3, 512, 513, 2048, 2049, 5000, 20000, 32767, 32768, 32769, 70000));

}  // namespace
}  // namespace attest
