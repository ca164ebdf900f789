// What a dump may take of memory, by what its file has on disk.
#include "dumps/format/memory_bound.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <tuple>

#include "dumps/base/error.h"
#include "dumps/format/dump_reader.h"
#include "tests/dumps/format/small_dump.h"
#include "tests/dumps/scratch_folder.h"
#include "tests/message_of.h"

namespace attest::test {
namespace {

class MemoryBoundTest : public ::testing::Test {
 protected:
  ScratchFolder folder_;
  std::string path_ = folder_.file("dump.h5");
};

TEST_F(MemoryBoundTest, LargeLayersAreReadOnlyWhenAllowed) {
  write_small_dump(path_);
  AttentionLayer layer;
  EXPECT_TRUE(DumpReader(path_).read_layer(0, 0, layer));
  const auto bytes = static_cast<std::uint64_t>(DumpReader(path_).layer_info(0, 0).bytes());
  EXPECT_TRUE(DumpReader(path_, bytes).read_layer(0, 0, layer));
  const std::string sentence =
      message_of<InputError>([&] { std::ignore = DumpReader(path_, bytes - 1).read_layer(0, 0, layer); });
  EXPECT_TRUE(sentence.starts_with(path_ + ": /samples/first/layers/0: takes ")) << sentence;
  EXPECT_TRUE(sentence.find(" of memory, the file has ") != std::string::npos) << sentence;
  EXPECT_TRUE(sentence.ends_with(" on disk; --allow-memory 1GiB allows it")) << sentence;
  EXPECT_NE(message_of<InputError>([&] {
              DumpReader(path_).check_memory(0, 0, std::uint64_t{13} << 30);
            }).find("takes 13.0 GiB of memory"),
            std::string::npos);
}

TEST_F(MemoryBoundTest, LargeArraysAreReadOnlyWhenAllowed) {
  write_small_dump(path_);
  const std::size_t tokens = 40 * (sizeof(std::int32_t) + sizeof(std::int64_t)), mass = 6 * 40 * sizeof(float);
  EXPECT_EQ(DumpReader(path_, tokens).read_array<std::int32_t>(0, "tokens").size(), 40u);
  EXPECT_EQ(DumpReader(path_, mass).read_array<float>(0, 0, "attention_mass").size(), 240u);
  EXPECT_TRUE(message_of<InputError>([&] {
                DumpReader(path_, tokens - 1).read_array<std::int32_t>(0, "tokens");
              }).starts_with(path_ + ": /samples/first/tokens: takes "));
  EXPECT_TRUE(message_of<InputError>([&] {
                DumpReader(path_, mass - 1).read_array<float>(0, 0, "attention_mass");
              }).starts_with(path_ + ": /samples/first/layers/0/attention_mass: takes "));
}

// The clusters of a hole cost nothing on disk, so they allow nothing.
TEST_F(MemoryBoundTest, HolesDoNotCount) {
  write_small_dump(path_);
  const std::int64_t stored = DumpReader(path_).info().stored_bytes;
  EXPECT_GT(stored, 0);
  std::filesystem::resize_file(path_, std::uint64_t{1} << 32);
  const DumpReader sparse(path_);
  EXPECT_EQ(sparse.info().file_bytes, std::int64_t{1} << 32);
  EXPECT_LT(sparse.info().stored_bytes, stored + (1 << 20));
}

}  // namespace
}  // namespace attest::test
