// The hash of a file that is read in pieces equals the hash of its bytes.
#include "analysis/run/input_hashes.h"

#include <gtest/gtest.h>

#include <fstream>
#include <random>

#include "dumps/base/content_hash.h"
#include "dumps/base/error.h"
#include "tests/dumps/scratch_folder.h"

namespace attest {
namespace {

TEST(ContentHash, IsThatOfTheWholeFileWhateverItsSize) {
  const ScratchFolder folder;
  std::mt19937_64 random(5);
  constexpr std::size_t kPiece = std::size_t{16} << 20;
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, kPiece - 1, kPiece, kPiece + 1, 2 * kPiece + 12345}) {
    std::vector<std::byte> bytes(size);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    const std::string path = folder.file("input");
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(size));
    EXPECT_EQ(content_hash(path), hex_digits(hash_of(bytes))) << size << " bytes";
  }
}

TEST(ContentHash, StopsWhenAsked) {
  const ScratchFolder folder;
  const std::string path = folder.file("input");
  std::ofstream(path) << "something";
  std::stop_source stop;
  stop.request_stop();
  EXPECT_THROW(content_hash(path, stop.get_token()), Interrupted);
}

}  // namespace
}  // namespace attest
