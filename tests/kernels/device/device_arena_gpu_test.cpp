// Scratch memory: release by scopes, the limit, and joining slabs.
#include <gtest/gtest.h>

#include "kernels/device/device_arena.h"
#include "tests/kernels/device_rows.h"

namespace attest::test {
namespace {

constexpr std::size_t kMebibyte = std::size_t{1} << 20;

class DeviceArenaTest : public OnGpu {};

TEST_F(DeviceArenaTest, PiecesAreAlignedAndApart) {
  DeviceArena arena(kMebibyte * 64);
  std::byte* end = nullptr;
  for (std::size_t bytes : {0u, 1u, 255u, 256u, 257u, 100000u}) {
    auto* piece = static_cast<std::byte*>(arena.take_bytes(bytes));
    ASSERT_NE(piece, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(piece) % 256, 0u) << bytes;
    EXPECT_TRUE(end == nullptr || piece >= end) << bytes;
    end = piece + std::max<std::size_t>(bytes, 1);
  }
  auto* doubles = arena.take<double>(3);
  EXPECT_GE(reinterpret_cast<std::byte*>(doubles), end);
  EXPECT_GE(arena.take<double>(1), doubles + 3);
}

TEST_F(DeviceArenaTest, AScopeGivesBackWhatWasTakenInIt) {
  DeviceArena arena(kMebibyte * 256);
  int* kept = arena.take<int>(10);
  int *first = nullptr, *second = nullptr;
  {
    const DeviceArena::Scope scope(arena);
    first = arena.take<int>(10);
    const DeviceArena::Scope inner(arena);
    second = arena.take<int>(10);
    arena.take_bytes(kMebibyte * 50);  // needs another slab
    EXPECT_TRUE(arena.has_several_slabs());
  }
  EXPECT_NE(first, kept);
  EXPECT_NE(second, first);
  EXPECT_EQ(arena.take<int>(10), first);
  EXPECT_EQ(arena.take<int>(10), second);
}

TEST_F(DeviceArenaTest, EndsAtItsLimitAndGoesOn) {
  DeviceArena arena(kMebibyte * 64);
  EXPECT_EQ(arena.limit(), kMebibyte * 64);
  {
    const DeviceArena::Scope scope(arena);
    arena.take_bytes(kMebibyte * 48);
    try {
      arena.take_bytes(kMebibyte * 17);
      ADD_FAILURE() << "65 of 64 MiB were handed out";
    } catch (const DeviceMemoryFull& error) {
      EXPECT_NE(std::string(error.what()).find("64 MiB"), std::string::npos) << error.what();
    }
    EXPECT_NO_THROW(arena.take_bytes(kMebibyte * 16));
    EXPECT_THROW(arena.take_bytes(1), DeviceMemoryFull);
  }
  EXPECT_NO_THROW(arena.take_bytes(kMebibyte * 48));
  arena.set_limit(kMebibyte * 128);
  EXPECT_NO_THROW(arena.take_bytes(kMebibyte * 40));
}

TEST_F(DeviceArenaTest, JoinsWhatGrewInPieces) {
  DeviceArena arena(kMebibyte * 256);
  {
    const DeviceArena::Scope scope(arena);
    for (int i = 0; i < 3; ++i) arena.take_bytes(kMebibyte * 60);
    EXPECT_TRUE(arena.has_several_slabs());
  }
  arena.merge_slabs();
  EXPECT_FALSE(arena.has_several_slabs());
  arena.set_limit(kMebibyte * 180);  // leaves no room for another slab
  EXPECT_NO_THROW(arena.take_bytes(kMebibyte * 180));
  EXPECT_FALSE(arena.has_several_slabs());
}

TEST_F(DeviceArenaTest, WhatIsReservedIsOnePiece) {
  DeviceArena arena(kMebibyte * 256), small(kMebibyte * 8);
  arena.reserve(kMebibyte * 100);
  for (int i = 0; i < 4; ++i) arena.take_bytes(kMebibyte * 25);
  EXPECT_FALSE(arena.has_several_slabs());
  small.reserve(kMebibyte * 9);  // beyond the limit: has no effect
  EXPECT_NO_THROW(small.take_bytes(kMebibyte * 8));
}

TEST_F(DeviceArenaTest, WhatTheGpuLacksCanBeCaught) {
  DeviceArena arena(DeviceArena::kNoLimit);
  arena.take_bytes(kMebibyte);
  EXPECT_THROW(arena.take_bytes(kMebibyte << 30), DeviceMemoryFull);
  arena.take_bytes(kMebibyte);
  EXPECT_FALSE(arena.has_several_slabs());
  DeviceArena sparing(DeviceArena::kNoLimit, kMebibyte << 30);
  EXPECT_THROW(sparing.take_bytes(1), DeviceMemoryFull);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

}  // namespace
}  // namespace attest::test
