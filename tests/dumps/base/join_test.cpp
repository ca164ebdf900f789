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

}  // namespace
}  // namespace attest
