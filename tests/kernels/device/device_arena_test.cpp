// Scratch memory of a device that is nearly full: what does not fit in a generous slab fits alone, and what does not
// fit at all can be caught. The device is a count of bytes.
#include "kernels/device/device_arena.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/message_of.h"

namespace attest::test {
namespace {

constexpr std::size_t kMebibyte = std::size_t{1} << 20;

/// Hands out addresses that nobody may read.
struct Counted {
  static inline std::size_t free_bytes = 0, end = 256;
  static inline bool others_take = false;  ///< what is freed
  static inline std::map<std::byte*, std::size_t> taken;

  static std::byte* allocate(std::size_t bytes) {
    if (bytes > free_bytes) throw DeviceMemoryFull("the GPU is out of memory");
    free_bytes -= bytes;
    auto* at = reinterpret_cast<std::byte*>(end);
    end += bytes;
    taken[at] = bytes;
    return at;
  }
  static void free(std::byte* data) noexcept {
    if (data == nullptr) return;
    if (!others_take) free_bytes += taken.at(data);
    taken.erase(data);
  }
  static std::size_t available() { return free_bytes; }
};
using Arena = StackArena<Counted>;

TEST(StackArena, WhatFitsNoSlabIsTakenAlone) {
  Counted::free_bytes = 20 * kMebibyte;
  {
    Arena arena(1024 * kMebibyte);
    arena.take_bytes(5 * kMebibyte);  // a slab has 32 MiB where there are so many
    EXPECT_EQ(Counted::free_bytes, 15 * kMebibyte);
    arena.take_bytes(14 * kMebibyte);
    EXPECT_EQ(message_of<DeviceMemoryFull>([&] { arena.take_bytes(2 * kMebibyte); }), "the GPU is out of memory");
    EXPECT_NO_THROW(arena.take_bytes(kMebibyte)) << "smaller chunks go on";
  }
  EXPECT_EQ(Counted::free_bytes, 20 * kMebibyte);
}

TEST(StackArena, SaysWhatIsNeededTakenAndFreeAtItsLimit) {
  Counted::free_bytes = 100 * kMebibyte;
  Arena arena(40 * kMebibyte);
  arena.take_bytes(30 * kMebibyte);
  EXPECT_EQ(message_of<DeviceMemoryFull>([&] { arena.take_bytes(9 * kMebibyte); }),
            "scratch memory on the GPU: 9 MiB more are needed, 32 MiB of the 40 MiB that it may have are taken, 68 MiB "
            "of the GPU are free");
}

TEST(StackArena, LeavesToOthersWhatItSpares) {
  Counted::free_bytes = 100 * kMebibyte;
  Arena arena(Arena::kNoLimit, 50 * kMebibyte);
  arena.take_bytes(40 * kMebibyte);
  EXPECT_EQ(message_of<DeviceMemoryFull>([&] { arena.take_bytes(11 * kMebibyte); }),
            "scratch memory on the GPU: 11 MiB more are needed, 60 MiB are free, of which 50 MiB are left to others");
  arena.take_bytes(10 * kMebibyte);
  EXPECT_EQ(Counted::free_bytes, 50 * kMebibyte);
  Counted::free_bytes += 60 * kMebibyte;  // others have returned theirs
  EXPECT_NO_THROW(arena.take_bytes(60 * kMebibyte));
}

TEST(StackArena, DoesWithoutWhatItWouldTakeInAdvance) {
  Counted::free_bytes = 100 * kMebibyte;
  Arena arena(1024 * kMebibyte);
  arena.reserve(200 * kMebibyte);
  EXPECT_EQ(Counted::free_bytes, 100 * kMebibyte);
  {
    const Arena::Scope scope(arena);
    arena.take_bytes(32 * kMebibyte);
    arena.take_bytes(32 * kMebibyte);
  }
  EXPECT_TRUE(arena.has_several_slabs());
  Counted::others_take = true;
  arena.merge_slabs();
  Counted::others_take = false;
  EXPECT_FALSE(arena.has_several_slabs());
  EXPECT_NO_THROW(arena.take_bytes(36 * kMebibyte));
  EXPECT_THROW(arena.take_bytes(1), DeviceMemoryFull);
}

}  // namespace
}  // namespace attest::test
