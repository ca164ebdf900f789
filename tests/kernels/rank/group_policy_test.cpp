// Levels and values that the query heads of a group share.
#include "kernels/rank/group_policy.h"

#include <gtest/gtest.h>

namespace attest::test {
namespace {

TEST(GroupPolicy, EveryHeadGetsTheLeastLevelOfItsGroup) {
  RowMatrix<Level> levels;
  levels.resize(5, 3);
  const Level given[5][3] = {{9, 9, 9}, {3, 1, 7}, {2, 4, 7}, {5, 1, 6}, {0, 0, 0}};
  for (int r = 0; r < 5; ++r) std::copy_n(given[r], 3, levels.row(r));
  take_group_minimum(levels, 1, 3, 2);
  // Only the first two tokens are shared, in rows 1 to 3.
  const Level expected[5][3] = {{9, 9, 9}, {2, 1, 7}, {2, 1, 7}, {2, 1, 6}, {0, 0, 0}};
  for (int r = 0; r < 5; ++r)
    for (int j = 0; j < 3; ++j) EXPECT_EQ(levels.row(r)[j], expected[r][j]) << r << ", " << j;
}

TEST(GroupPolicy, EveryHeadGetsTheLargestValueOfItsGroup) {
  RowMatrix<double> values;
  values.resize(4, 2);
  const double given[4][2] = {{1, -2}, {3, -4}, {2, -1}, {9, 9}};
  for (int r = 0; r < 4; ++r) std::copy_n(given[r], 2, values.row(r));
  take_group_maximum(values, 0, 3, 2);
  const double expected[4][2] = {{3, -1}, {3, -1}, {3, -1}, {9, 9}};
  for (int r = 0; r < 4; ++r)
    for (int j = 0; j < 2; ++j) EXPECT_EQ(values.row(r)[j], expected[r][j]) << r << ", " << j;
}

}  // namespace
}  // namespace attest::test
