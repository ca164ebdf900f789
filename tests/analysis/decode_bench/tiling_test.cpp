// Contexts of any length made from the tokens of a dump: what stays in place, what is repeated, what is cut.
#include "analysis/decode_bench/tiling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace attest {
namespace {

TEST(Tiling, AContextOfTheSameLengthIsTheDumps) {
  for (const std::int64_t tokens : {1, 2, 3, 100, 640, 700, 5000}) {
    std::vector<std::int64_t> same(static_cast<std::size_t>(tokens));
    std::iota(same.begin(), same.end(), 0);
    EXPECT_EQ(tiled_tokens(tokens, tokens), same) << tokens;
  }
}

TEST(Tiling, ALongerOneRepeatsWholeBlocksBetweenTheEnds) {
  const auto which = tiled_tokens(5000, 20000);
  ASSERT_EQ(which.size(), 20000u);
  for (std::int64_t i = 0; i < 128; ++i) EXPECT_EQ(which[static_cast<std::size_t>(i)], i);
  for (std::int64_t i = 1; i <= 512; ++i) EXPECT_EQ(which[static_cast<std::size_t>(20000 - i)], 5000 - i);
  const std::int64_t period = (5000 - 128 - 512) / 128 * 128;
  for (std::int64_t i = 128; i < 20000 - 512; ++i)
    ASSERT_EQ(which[static_cast<std::size_t>(i)], 128 + (i - 128) % period) << i;
}

TEST(Tiling, AShorterOneDropsTheOlderOfTheMiddle) {
  const auto which = tiled_tokens(5000, 1000);
  for (std::int64_t i = 0; i < 128; ++i) EXPECT_EQ(which[static_cast<std::size_t>(i)], i);
  for (std::int64_t i = 128; i < 1000; ++i) ASSERT_EQ(which[static_cast<std::size_t>(i)], 4000 + i) << i;
}

TEST(Tiling, EveryPlaceHasATokenOfTheDump) {
  for (const std::int64_t tokens : {1, 2, 3, 5, 127, 129, 400, 641, 900})
    for (const std::int64_t length : {1, 2, 3, 4, 100, 128, 129, 500, 1000, 4096}) {
      const auto which = tiled_tokens(tokens, length);
      ASSERT_EQ(static_cast<std::int64_t>(which.size()), length);
      for (const std::int64_t token : which) ASSERT_TRUE(token >= 0 && token < tokens) << tokens << " " << length;
      if (length >= 2 && tokens >= 2) {
        EXPECT_EQ(which.back(), tokens - 1) << tokens << " " << length;
      }
      EXPECT_EQ(which.front(), length == 1 ? which.front() : 0);
    }
}

TEST(Tiling, RowsAreGathered) {
  std::vector<std::byte> values;
  for (int i = 0; i < 2 * 3 * 2; ++i) values.push_back(static_cast<std::byte>(i));  // 2 heads, 3 tokens, 2 bytes
  const std::vector<std::int64_t> which{2, 0, 2};
  std::vector<int> found;
  for (const std::byte value : gather_tokens(values, 2, 3, 2, which)) found.push_back(static_cast<int>(value));
  EXPECT_EQ(found, (std::vector<int>{4, 5, 0, 1, 4, 5, 10, 11, 6, 7, 10, 11}));
}

}  // namespace
}  // namespace attest
