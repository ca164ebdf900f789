// Margins of the rules on small made scores.
#include "analysis/decode_bench/block_margins.h"

#include <gmock/gmock.h>

#include <limits>

namespace attest {
namespace {

using testing::DoubleEq;
using testing::ElementsAre;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Two pairs with two heads each, four sub-blocks, two of them a block.
const std::vector<double> kMaxima{5,  1,  4,  2,   //
                                  0,  3,  1,  6,   //
                                  -1, -2, -3, -4,  //
                                  9,  8,  7,  5};
HeadMaxima heads(const std::vector<double>& values, int per_block) {
  return {.maxima = values, .pairs = 2, .sub_blocks = 4, .group = 2, .per_block = per_block};
}

TEST(BlockMargins, TopdeltaComparesWithFirstAndLastBlock) {
  // References: of single sub-blocks 5, 6; -1, 9. Of pairs of them 5, 6; -1, 9 too.
  EXPECT_THAT(topdelta_margins(heads(kMaxima, 1)), ElementsAre(0, 3, 1, 0, 0, 1, 2, 3));
  std::vector<double> other = kMaxima;
  other[1] = 7;  // in the first block of two sub-blocks
  EXPECT_THAT(topdelta_margins(heads(other, 1)), ElementsAre(0, -2, 1, 0, 0, 1, 2, 3));
  EXPECT_THAT(topdelta_margins(heads(other, 2)), ElementsAre(2, 0, 3, 0, 0, 1, 2, 3));
}

TEST(BlockMargins, TopkRanksTheGroupsMaximum) {
  EXPECT_THAT(topk_margins(heads(kMaxima, 1)), ElementsAre(-5, -3, -4, -6, -9, -8, -7, -5));
}

TEST(BlockMargins, SkipSoftmaxComparesWithEarlierTilesOfTheSubSequence) {
  EXPECT_THAT(skip_margins(heads(kMaxima, 1), 1), ElementsAre(-kInfinity, -3, 1, -3, -kInfinity, 1, 2, 3));
  EXPECT_THAT(skip_margins(heads(kMaxima, 1), 2),
              ElementsAre(-kInfinity, -kInfinity, -1, -3, -kInfinity, -kInfinity, 2, 2));
  EXPECT_THAT(skip_margins(heads(kMaxima, 1), 9), testing::Each(-kInfinity));
}

TEST(BlockMargins, ToppAddsTheMassOfHeavierOnes) {
  const std::vector<double> masses{0.5,  0.25, 0.125, 0.125, 0.125, 0.125, 0.25, 0.5,
                                   0.25, 0.25, 0.25,  0.25,  0.25,  0.25,  0.25, 0.25};
  EXPECT_THAT(topp_margins(heads(masses, 1)), ElementsAre(DoubleEq(0), DoubleEq(0.5), DoubleEq(0.5), DoubleEq(0),
                                                          DoubleEq(0), DoubleEq(0.25), DoubleEq(0.5), DoubleEq(0.75)));
}

TEST(BlockMargins, NoBlockHasNoMargin) {
  const HeadMaxima none{.maxima = {}, .pairs = 2, .sub_blocks = 0, .group = 2, .per_block = 1};
  EXPECT_TRUE(topdelta_margins(none).empty() && topk_margins(none).empty() && topp_margins(none).empty());
}

}  // namespace
}  // namespace attest
