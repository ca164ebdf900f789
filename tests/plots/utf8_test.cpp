// Characters of UTF-8, whatever their number of bytes.
#include "plots/utf8.h"

#include <gtest/gtest.h>

namespace attest {
namespace {

TEST(Utf8, CountsCharactersNotBytes) {
  EXPECT_EQ(characters(""), 0U);
  EXPECT_EQ(characters("d\xC3\xA9lta"), 5U);
  EXPECT_EQ(characters("\u2265\U0001F600."), 3U);
}

TEST(Utf8, SplitsBetweenCharacters) {
  using Parts = std::pair<std::string, std::string>;
  EXPECT_EQ(split_characters("d\xC3\xA9lta", 2), Parts("d\xC3\xA9", "lta"));
  EXPECT_EQ(split_characters("ab", 5), Parts("ab", ""));
  EXPECT_EQ(split_characters("\u2265x", 0), Parts("", "\u2265x"));
}

}  // namespace
}  // namespace attest
