// Page-locked memory of every size: allocation and copies in both directions.
#include <gtest/gtest.h>

#include <cstring>

#include "kernels/device/page_locked_memory.h"
#include "tests/kernels/device_rows.h"

namespace attest::test {
namespace {

class PageLockedMemoryTest : public OnGpu {};

/// Sizes of 2 MiB and more are allocated by the system and page-locked afterwards.
TEST_F(PageLockedMemoryTest, CopiesBothWays) {
  constexpr std::size_t kLarge = std::size_t{2} << 20;
  Gpu gpu;
  std::pmr::memory_resource* memory = page_locked_memory(0);
  EXPECT_EQ(page_locked_memory(0), memory);
  for (std::size_t bytes : {std::size_t{0}, std::size_t{1}, kLarge - 1, kLarge, kLarge + 1, 5 * kLarge + 12345}) {
    auto* data = static_cast<unsigned char*>(memory->allocate(bytes));
    ASSERT_NE(data, nullptr);
    cudaPointerAttributes attributes{};
    ASSERT_EQ(cudaPointerGetAttributes(&attributes, data), cudaSuccess);
    EXPECT_EQ(attributes.type, cudaMemoryTypeHost) << bytes;
    for (std::size_t i = 0; i < bytes; ++i) data[i] = static_cast<unsigned char>(i * 2654435761u >> 24);
    const std::vector<unsigned char> expected(data, data + bytes);
    auto* on_device = gpu.arena.take<unsigned char>(bytes);
    ATTEST_CUDA(cudaMemcpyAsync(on_device, data, bytes, cudaMemcpyHostToDevice, gpu.stream));
    gpu.stream.synchronize();
    if (bytes > 0) std::memset(data, 0, bytes);
    ATTEST_CUDA(cudaMemcpyAsync(data, on_device, bytes, cudaMemcpyDeviceToHost, gpu.stream));
    gpu.stream.synchronize();
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), data)) << bytes;
    memory->deallocate(data, bytes);
    EXPECT_EQ(cudaGetLastError(), cudaSuccess) << bytes;
  }
}

TEST_F(PageLockedMemoryTest, PiecesAreApart) {
  std::pmr::memory_resource* memory = page_locked_memory(0);
  std::vector<std::pair<unsigned char*, std::size_t>> pieces;
  prepare_page_locked(3u << 20);  // for one of the two of this size
  for (std::size_t bytes : {1000u, 3u << 20, 500u, 3u << 20, 2u << 20}) {
    pieces.emplace_back(static_cast<unsigned char*>(memory->allocate(bytes)), bytes);
    std::memset(pieces.back().first, static_cast<int>(pieces.size()), bytes);
  }
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const auto& [data, bytes] = pieces[i];
    EXPECT_EQ(std::count(data, data + bytes, static_cast<unsigned char>(i + 1)), static_cast<std::ptrdiff_t>(bytes));
    memory->deallocate(data, bytes);
  }
}

}  // namespace
}  // namespace attest::test
