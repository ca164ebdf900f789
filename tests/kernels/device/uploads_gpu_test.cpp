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

TEST_F(UploadsTest, GoWhereTheyAreWanted) {
  Gpu gpu;
  Uploads uploads;
  for (const std::size_t count : {0, 1, 5, 1000, 300000}) {
    const std::vector<int> values = numbers(count, 2);
    auto* const to = gpu.arena.take<std::byte>((count + 3) / 4 * 16);
    uploads.copy(std::as_bytes(std::span(values)), to, gpu.stream);
    EXPECT_TRUE(gpu.download(reinterpret_cast<int*>(to), count) == values) << count;
  }
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

TEST_F(UploadsTest, WhatIsKeptIsSentOnceToEachStream) {
  Gpu gpu;
  const CudaStream other;
  KeptUploads kept;
  Uploads one(&kept), two(&kept);
  const std::vector<int> first = numbers(700, 3), second = numbers(700, 4), prefix = numbers(699, 3);
  const auto put = [&](Uploads& uploads, const std::vector<int>& values, cudaStream_t stream) {
    return uploads.put(std::span(values), gpu.arena, stream);
  };
  const int* const place = put(one, first, gpu.stream);
  EXPECT_EQ(put(two, first, gpu.stream), place);
  one.reset();
  EXPECT_EQ(put(one, first, gpu.stream), place);
  std::vector<const int*> all{place, put(one, second, gpu.stream), put(one, prefix, gpu.stream),
                              put(one, first, other)};
  other.synchronize();
  EXPECT_EQ(gpu.download(all[0], first.size()), first);
  EXPECT_EQ(gpu.download(all[1], second.size()), second);
  EXPECT_EQ(gpu.download(all[2], prefix.size()), prefix);
  EXPECT_EQ(gpu.download(all[3], first.size()), first);
  std::ranges::sort(all);
  EXPECT_EQ(std::ranges::adjacent_find(all), all.end());
}

TEST_F(UploadsTest, WhatIsLargeOrFindsNoRoomIsSentAgain) {
  Gpu gpu;
  KeptUploads kept;
  Uploads uploads(&kept);
  const std::vector<int> large = numbers(8193, 0);
  EXPECT_NE(uploads.put(std::span(large), gpu.arena, gpu.stream), uploads.put(std::span(large), gpu.arena, gpu.stream));
  int sent_again = 0;
  for (int i = 0; i < 300; ++i) {  // of 32 KiB each
    const DeviceArena::Scope scope(gpu.arena);
    const std::vector<int> values = numbers(8192, i);
    const int* const at = uploads.put(std::span(values), gpu.arena, gpu.stream);
    EXPECT_TRUE(gpu.download(at, values.size()) == values) << i;
    if (uploads.put(std::span(values), gpu.arena, gpu.stream) != at) ++sent_again;
    gpu.stream.synchronize();
    uploads.reset();
  }
  EXPECT_EQ(sent_again, 300 - 8 * 32);
}

}  // namespace
}  // namespace attest::test
