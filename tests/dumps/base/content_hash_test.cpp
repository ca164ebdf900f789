// Compares with hashes that xxhsum 0.8.1 printed.
#include "dumps/base/content_hash.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace attest {
namespace {

struct Case {
  std::size_t length;
  const char* hash;
};

/// Lengths around that of a word, a stripe and two stripes.
constexpr Case kCases[] = {{0, "ef46db3751d8e999"},   {1, "a96c7f0ce858bbb7"},   {3, "bed43740ee6332bb"},
                           {4, "fa212ae44b3bb23d"},   {8, "994b676b71ce94dd"},   {31, "6711d55e306b5d8f"},
                           {32, "07f7b8e3bc5d6e25"},  {33, "09f85eeb4e1cbe9f"},  {63, "b7c9968c066cb6a5"},
                           {100, "9ddada11d3dc2d8f"}, {1000, "0bf0bdbcc82eb373"}};

std::vector<std::byte> bytes(std::size_t count) {
  std::vector<std::byte> result;
  for (std::size_t i = 0; i < count; ++i) result.push_back(static_cast<std::byte>(i * 131 + 7));
  return result;
}

TEST(ContentHash, IsXxh64) {
  for (const Case& c : kCases) EXPECT_EQ(hex_digits(hash_of(bytes(c.length))), c.hash) << c.length;
}

TEST(ContentHash, DoesNotDependOnThePieces) {
  for (const Case& c : kCases)
    for (const std::size_t piece : {1u, 7u, 31u, 32u, 33u}) {
      const std::vector<std::byte> all = bytes(c.length);
      ContentHash hash;
      for (std::size_t at = 0; at < all.size(); at += piece)
        hash.update(std::span(all).subspan(at, std::min(piece, all.size() - at)));
      EXPECT_EQ(hex_digits(hash.digest()), c.hash) << c.length << " in pieces of " << piece;
    }
}

TEST(ContentHash, TheDigestSoFarEndsNothing) {
  const std::vector<std::byte> all = bytes(100);
  ContentHash hash;
  hash.update(std::span(all).first(31));
  EXPECT_EQ(hex_digits(hash.digest()), "6711d55e306b5d8f");
  hash.update(std::span(all).subspan(31));
  EXPECT_EQ(hex_digits(hash.digest()), "9ddada11d3dc2d8f");
}

}  // namespace
}  // namespace attest
