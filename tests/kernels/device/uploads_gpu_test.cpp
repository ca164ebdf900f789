// Uploading small arrays to the device.
#include <gtest/gtest.h>

#include <numeric>

#include "kernels/device/uploads.h"
#include "tests/kernels/device_rows.h"

namespace attest::test {
namespace {

std::vector<int> numbers(std::size_t count, int first) {
  std::vector<int> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

class UploadsTest : public OnGpu {};

/// Sizes around the 16-byte word, the padding of an array, and the staging slabs.
TEST_F(UploadsTest, ArriveHoweverLongTheyAre) {
  Gpu gpu;
  Uploads uploads;
  for (int round = 0; round < 3; ++round) {
    const DeviceArena::Scope scope(gpu.arena);
    std::vector<std::pair<const int*, std::vector<int>>> sent;
    for (std::size_t count : {1, 3, 4, 5, 63, 64, 65, 1000, 200000, 70000, 262143, 262144, 262145, 600000, 2}) {
      std::vector<int> values = numbers(count, static_cast<int>(count) + round);
      sent.emplace_back(uploads.put(std::span<const int>(values), gpu.arena, gpu.stream), values);
      std::fill(values.begin(), values.end(), -1);  // put() has copied them
    }
    for (const auto& [on_device, values] : sent)
      EXPECT_TRUE(gpu.download(on_device, values.size()) == values) << values.size() << " numbers, round " << round;
    uploads.reset();
  }
}

TEST_F(UploadsTest, SeveralArraysAtOnce) {
  Gpu gpu;
  Uploads uploads;
  const std::vector<int> first = numbers(65, 3), third = numbers(100000, 9);
  const std::vector<std::uint8_t> second{7};
  const std::vector<float> none;
  const auto [a, b, c, d] = uploads.put_all(gpu.arena, gpu.stream, first, second, third, none);
  EXPECT_EQ(gpu.download(a, first.size()), first);
  EXPECT_EQ(gpu.download(b, second.size()), second);
  EXPECT_TRUE(gpu.download(c, third.size()) == third);
}

TEST_F(UploadsTest, OddBytesAndNoneAtAll) {
  Gpu gpu;
  Uploads uploads;
  for (std::size_t count : {1, 15, 16, 17, 255, 257}) {
    std::vector<std::uint8_t> values;
    for (std::size_t i = 0; i < count; ++i) values.push_back(static_cast<std::uint8_t>(7 * i + count));
    EXPECT_EQ(gpu.download(uploads.put(std::span<const std::uint8_t>(values), gpu.arena, gpu.stream), count), values);
  }
  EXPECT_NE(uploads.put(std::span<const int>(), gpu.arena, gpu.stream), nullptr);
}

}  // namespace
}  // namespace attest::test
