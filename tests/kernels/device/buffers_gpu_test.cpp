// Buffers that own device memory, page-locked host memory, or memory of any allocator.
#include <gtest/gtest.h>

#include "dumps/base/error.h"
#include "kernels/device/buffers.h"
#include "tests/kernels/device_rows.h"

namespace attest::test {
namespace {

/// Counts live allocations.
struct Counted {
  static inline int alive = 0;
  static std::byte* allocate(std::size_t bytes) {
    ++alive;
    return new std::byte[bytes];
  }
  static void free(std::byte* data) noexcept {
    alive -= data != nullptr;
    delete[] data;
  }
};

TEST(GrowingBuffer, GrowsNeverShrinksAndFreesOnce) {
  {
    GrowingBuffer<Counted> none, some(100);
    EXPECT_EQ(none.data(), nullptr);
    EXPECT_EQ(none.size(), 0u);
    EXPECT_EQ(some.size(), 100u);
    std::byte* data = some.data();
    some.reserve(50);
    EXPECT_EQ(some.data(), data);
    EXPECT_EQ(some.size(), 100u);
    some.reserve(200);
    EXPECT_EQ(some.size(), 200u);
    EXPECT_EQ(Counted::alive, 1);
    data = some.data();
    GrowingBuffer<Counted> moved(std::move(some));
    EXPECT_EQ(moved.data(), data);
    none = std::move(moved);
    EXPECT_EQ(none.data(), data);
    EXPECT_EQ(none.size(), 200u);
    EXPECT_EQ(Counted::alive, 1);
  }
  EXPECT_EQ(Counted::alive, 0);
}

struct Refusing : Counted {
  static std::byte* allocate(std::size_t bytes) {
    if (bytes > 100) throw DeviceError("no more");
    return Counted::allocate(bytes);
  }
};

TEST(GrowingBuffer, IsEmptyAfterFailedGrowth) {
  GrowingBuffer<Refusing> buffer(100);
  EXPECT_THROW(buffer.reserve(101), DeviceError);
  EXPECT_EQ(buffer.data(), nullptr);
  EXPECT_EQ(buffer.size(), 0u);
  EXPECT_EQ(Counted::alive, 0);
  EXPECT_NO_THROW(buffer.reserve(10));
}

class Buffers : public OnGpu {};

TEST_F(Buffers, AllocateInTheNamedMemory) {
  const DeviceBuffer device(1000);
  const PageLockedBuffer host(1000);
  cudaPointerAttributes of_device{}, of_host{};
  ASSERT_EQ(cudaPointerGetAttributes(&of_device, device.data()), cudaSuccess);
  ASSERT_EQ(cudaPointerGetAttributes(&of_host, host.data()), cudaSuccess);
  EXPECT_EQ(of_device.type, cudaMemoryTypeDevice);
  EXPECT_EQ(of_host.type, cudaMemoryTypeHost);
  for (int i = 0; i < 1000; ++i) host.data()[i] = static_cast<std::byte>(i % 251);
  const std::vector<std::byte> expected(host.data(), host.data() + 1000);
  ASSERT_EQ(cudaMemcpy(device.data(), host.data(), 1000, cudaMemcpyHostToDevice), cudaSuccess);
  std::fill_n(host.data(), 1000, std::byte{0});
  ASSERT_EQ(cudaMemcpy(host.data(), device.data(), 1000, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(std::vector<std::byte>(host.data(), host.data() + 1000), expected);
}

TEST_F(Buffers, SayHowMuchIsMissing) {
  try {
    const DeviceBuffer buffer(std::size_t{1} << 50);
    ADD_FAILURE() << "a pebibyte was handed out";
  } catch (const DeviceError& error) {
    EXPECT_NE(std::string(error.what()).find("1073741824 MiB more are needed"), std::string::npos) << error.what();
  }
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

}  // namespace
}  // namespace attest::test
