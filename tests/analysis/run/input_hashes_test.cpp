// The hash of a file against its definition, for sizes around the border of a block, any number of threads, and blocks
// whose hash the study gives.
#include "analysis/run/input_hashes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <random>
#include <span>

#include "dumps/base/content_hash.h"
#include "dumps/base/error.h"
#include "tests/dumps/scratch_folder.h"
#include "tests/message_of.h"

namespace attest {
namespace {

constexpr std::size_t kBlock = std::size_t{1} << 20;

/// The definition, for bytes in memory.
std::string expected_hash(std::span<const std::byte> bytes) {
  std::string lines;
  for (std::size_t begin = 0; begin < bytes.size(); begin += kBlock) {
    char digits[32];
    std::snprintf(
        digits, sizeof digits, "%016llx\n",
        static_cast<unsigned long long>(hash_of(bytes.subspan(begin, std::min(kBlock, bytes.size() - begin)))));
    lines += digits;
  }
  return hex_digits(hash_of(std::as_bytes(std::span(lines))));
}

std::vector<std::string> hashes_of(InputHashes& hashes) {
  const std::vector<std::string>* found = nullptr;
  while (found == nullptr) found = hashes.wait(std::chrono::milliseconds(100));
  return *found;
}

class InputHashesTest : public ::testing::Test {
 protected:
  InputHashesTest() {
    for (const std::size_t size :
         {std::size_t{0}, std::size_t{1}, kBlock - 1, kBlock, kBlock + 1, 5 * kBlock + 12345}) {
      std::vector<std::byte> bytes(size);
      for (std::byte& byte : bytes) byte = static_cast<std::byte>(random_());
      const std::string path = folder_.file("input" + std::to_string(size));
      std::ofstream(path, std::ios::binary)
          .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(size));
      inputs_.push_back(input_status(path));
      expected_.push_back(expected_hash(bytes));
      contents_.push_back(std::move(bytes));
    }
  }

  template <class Visit>
  void each_block(Visit visit) const {
    for (std::size_t i = 0; i < inputs_.size(); ++i)
      for (std::size_t begin = 0; begin < contents_[i].size(); begin += kBlock)
        visit(i, BlockHash{.block = begin / kBlock,
                           .hash = hash_of(
                               std::span(contents_[i]).subspan(begin, std::min(kBlock, contents_[i].size() - begin)))});
  }

  ScratchFolder folder_;
  std::mt19937_64 random_{5};
  std::vector<InputStatus> inputs_;
  std::vector<std::vector<std::byte>> contents_;
  std::vector<std::string> expected_;
};

TEST_F(InputHashesTest, AreThoseOfTheDefinition) {
  for (const int threads : {1, 2, 7}) {
    InputHashes hashes(inputs_, threads);
    EXPECT_EQ(hashes_of(hashes), expected_) << threads << " threads";
  }
}

TEST_F(InputHashesTest, AreKnownWithoutAnybodyWaiting) {
  InputHashes hashes(inputs_, 3);
  while (hashes.get() == nullptr) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(*hashes.get(), expected_);
}

TEST_F(InputHashesTest, TheFirstHashOfABlockCounts) {
  InputHashes hashes(inputs_, 2);
  each_block([&](std::size_t i, const BlockHash& block) {
    hashes.set(i, block);
    hashes.set(i, {.block = block.block, .hash = 1});
  });
  hashes.set(1, {.block = 1, .hash = 1});  // beyond the end
  EXPECT_EQ(hashes_of(hashes), expected_);
}

TEST_F(InputHashesTest, ABlockThatIsGivenIsTaken) {
  // Large enough that the thread, which begins at the end, is not at the first block yet.
  folder_.write("large", std::string(200 * kBlock, 'a'));
  InputHashes hashes({input_status(folder_.file("large"))}, 1);
  hashes.set(0, {.block = 0, .hash = 42});
  std::string lines = hex_digits(42) + '\n';
  const std::string block(kBlock, 'a');
  for (int i = 1; i < 200; ++i) lines += hex_digits(hash_of(std::as_bytes(std::span(block)))) + '\n';
  EXPECT_EQ(hashes_of(hashes).at(0), hex_digits(hash_of(std::as_bytes(std::span(lines)))));
}

TEST_F(InputHashesTest, SomeBlocksMayBeHashedAtOnce) {
  // As above: the thread is not there yet, and rests.
  const std::string path = folder_.file("large");
  folder_.write("large", std::string(200 * kBlock, 'a'));
  InputHashes hashes({input_status(path)}, 1);
  hashes.rest();
  const std::uint64_t first[] = {0, 1, 200};  // the last is beyond the end
  hashes.hash(0, first);
  std::fstream(path, std::ios::binary | std::ios::in | std::ios::out) << std::string(2 * kBlock, 'b');
  const std::string all(200 * kBlock, 'a');
  EXPECT_EQ(hashes_of(hashes).at(0), expected_hash(std::as_bytes(std::span(all))));
}

TEST_F(InputHashesTest, WhatOtherProcessesSayIsTakenOrCompared) {
  for (const bool trusted : {false, true}) {
    InputHashes hashes(inputs_, 2);
    hashes.rest();
    each_block([&](std::size_t i, const BlockHash& block) { hashes.take(i, block, "p", trusted); });
    EXPECT_EQ(hashes_of(hashes), expected_);
    EXPECT_EQ(message_of<InputError>([&] { hashes.take(5, {.block = 1, .hash = 1}, "process 7 on 'n'", trusted); }),
              "'" + inputs_[5].path +
                  "' has other content than the file from which process 7 on 'n' has computed a layer, in the 1048576 "
                  "bytes from 1048576 on; start over with --force instead of --resume");
    EXPECT_THROW(hashes.take(5, {.block = 100, .hash = 1}, "p", trusted), InputError);
  }
}

TEST_F(InputHashesTest, AWrongHashOfAnotherProcessIsFoundLater) {
  folder_.write("large", std::string(50 * kBlock, 'a'));
  InputHashes hashes({input_status(folder_.file("large"))}, 1);
  hashes.rest();
  hashes.take(0, {.block = 0, .hash = 1}, "p", false);
  EXPECT_THROW(hashes_of(hashes), InputError);
  InputHashes own({input_status(folder_.file("large"))}, 1);
  own.take(0, {.block = 0, .hash = 1}, "p", true);
  EXPECT_THROW(own.take(0, {.block = 0, .hash = 2}, "q", true), InputError);
  own.set(0, {.block = 0, .hash = 2});
  EXPECT_THROW(hashes_of(own), InputError);
}

TEST_F(InputHashesTest, SamplesTellFilesApart) {
  EXPECT_EQ(sampled_hash(inputs_[0].path), sampled_hash(inputs_[0].path));
  std::vector<std::string> all;
  for (const InputStatus& input : inputs_) all.push_back(sampled_hash(input.path));
  for (const std::size_t changed : {std::size_t{0}, 5 * kBlock + 12344}) {
    std::string content(reinterpret_cast<const char*>(contents_[5].data()), contents_[5].size());
    content[changed] ^= 1;
    folder_.write("changed", content);
    all.push_back(sampled_hash(folder_.file("changed")));
  }
  std::ranges::sort(all);
  EXPECT_EQ(std::ranges::adjacent_find(all), all.end());
}

// From `printf attest >f; split -b 1M --filter='xxhsum -H1 | cut -c1-16' f | xxhsum -H1` with xxhsum 0.8.1.
TEST(InputHashes, AreThoseOfTheDocumentedCommand) {
  const ScratchFolder folder;
  folder.write("f", "attest");
  InputHashes hashes({input_status(folder.file("f"))}, 1);
  EXPECT_EQ(hashes_of(hashes), std::vector<std::string>{"ef0f5b0fee970606"});
}

TEST(InputHashes, AFileThatIsCutShortIsAnError) {
  const ScratchFolder folder;
  folder.write("f", "attest");
  InputStatus longer = input_status(folder.file("f"));
  longer.bytes += 10;
  InputHashes hashes({longer}, 2);
  EXPECT_THROW(hashes_of(hashes), InputError);
  EXPECT_THROW(input_status(folder.file("missing")), InputError);
}

TEST(InputHashes, NoInputsHaveNoHashes) {
  InputHashes hashes({}, 2);
  EXPECT_TRUE(hashes_of(hashes).empty());
}

}  // namespace
}  // namespace attest
