// Lists in messages.
#include "dumps/base/join.h"

#include <gtest/gtest.h>

#include <vector>

namespace attest {
namespace {

TEST(Join, TheFirstFewAreShownAndTheOthersCounted) {
  const std::vector<std::string> names{"a", "b", "c"};
  EXPECT_EQ(first_few(names, 3), "a, b, c");
  EXPECT_EQ(first_few(names, 2), "a, b and 1 more");
  EXPECT_EQ(first_few(names, 1, "; "), "a; and 2 more");
  EXPECT_EQ(first_few(std::vector<int>{7, 8}, 1, ", ", [](int i) { return i + 1; }), "8 and 1 more");
  EXPECT_EQ(first_few(std::vector<std::string>{}, 2), "");
}

TEST(LengthText, HasTheLargestUnitThatDividesTheLength) {
  EXPECT_EQ(length_text(900), "900");
  EXPECT_EQ(length_text(1024), "1K");
  EXPECT_EQ(length_text(1536), "1536");
  EXPECT_EQ(length_text(393216), "384K");
  EXPECT_EQ(length_text(2097152), "2M");
}

}  // namespace
}  // namespace attest
