// Orders by chance: the same for a seed on every machine, and all of them as often.
#include "analysis/statistics/shuffle.h"

#include <gtest/gtest.h>

#include <map>

namespace attest::test {
namespace {

TEST(Shuffle, EveryOrderIsAsLikely) {
  std::mt19937_64 random(1);
  std::map<std::vector<int>, int> found;
  for (int i = 0; i < 6000; ++i) {
    std::vector<int> values{0, 1, 2};
    shuffle(values, random);
    ++found[values];
  }
  EXPECT_EQ(found.size(), 6u);
  for (const auto& [order, count] : found) EXPECT_NEAR(count, 1000, 150);
}

TEST(Shuffle, TheSameOnEveryMachine) {
  std::mt19937_64 random(7);
  std::vector<int> values{0, 1, 2, 3, 4, 5, 6, 7}, none;
  shuffle(none, random);
  shuffle(values, random);
  EXPECT_EQ(values, (std::vector<int>{2, 3, 5, 6, 1, 0, 4, 7}));
}

}  // namespace
}  // namespace attest::test
