// The hash of a file against its definition, for sizes around the border of a piece and any number of threads.
#include "analysis/run/input_hashes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <random>

#include "dumps/base/content_hash.h"
#include "dumps/base/error.h"
#include "tests/dumps/scratch_folder.h"

namespace attest {
namespace {

constexpr std::size_t kPiece = std::size_t{16} << 20;

/// The definition, for bytes in memory.
std::string expected_hash(std::span<const std::byte> bytes) {
  std::string lines;
  for (std::size_t begin = 0; begin < bytes.size(); begin += kPiece) {
    char digits[32];
    std::snprintf(
        digits, sizeof digits, "%016llx\n",
        static_cast<unsigned long long>(hash_of(bytes.subspan(begin, std::min(kPiece, bytes.size() - begin)))));
    lines += digits;
  }
  return hex_digits(hash_of(std::as_bytes(std::span(lines))));
}

TEST(ContentHashes, AreThoseOfTheDefinition) {
  const ScratchFolder folder;
  std::mt19937_64 random(5);
  std::vector<std::string> paths, expected;
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, kPiece - 1, kPiece, kPiece + 1, 2 * kPiece + 12345}) {
    std::vector<std::byte> bytes(size);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    paths.push_back(folder.file("input" + std::to_string(size)));
    std::ofstream(paths.back(), std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(size));
    expected.push_back(expected_hash(bytes));
  }
  for (const int threads : {1, 2, 7}) EXPECT_EQ(content_hashes(paths, threads), expected) << threads << " threads";
}

// From `printf attest >f; split -b 16M --filter='xxhsum -H1 | cut -c1-16' f | xxhsum -H1` with xxhsum 0.8.1.
TEST(ContentHashes, AreThoseOfTheDocumentedCommand) {
  const ScratchFolder folder;
  folder.write("f", "attest");
  EXPECT_EQ(content_hashes({folder.file("f")}, 1), std::vector<std::string>{"ef0f5b0fee970606"});
}

TEST(ContentHashes, StopWhenAsked) {
  const ScratchFolder folder;
  const std::string path = folder.file("input");
  std::ofstream(path) << "something";
  std::stop_source stop;
  stop.request_stop();
  EXPECT_THROW(content_hashes({path}, 2, stop.get_token()), Interrupted);
}

}  // namespace
}  // namespace attest
