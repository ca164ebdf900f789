// Holm's adjusted p-values against worked examples.
#include "analysis/statistics/holm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace attest {
namespace {

using testing::DoubleEq;
using testing::ElementsAre;

TEST(Holm, IsTheWorkedExample) {
  // p = 0.01, 0.04, 0.03, 0.005 (Wikipedia, "Holm-Bonferroni method"): at 5 % the first and the last are rejected.
  EXPECT_THAT(holm_adjusted(std::vector{0.01, 0.04, 0.03, 0.005}),
              ElementsAre(DoubleEq(0.03), DoubleEq(0.06), DoubleEq(0.06), DoubleEq(0.02)));
}

TEST(Holm, IsRsPAdjust) {
  // R: p.adjust(c(0.0001, 0.02, 0.02, 0.5, 0.9, 0.011), "holm")
  EXPECT_THAT(holm_adjusted(std::vector{0.0001, 0.02, 0.02, 0.5, 0.9, 0.011}),
              ElementsAre(DoubleEq(0.0006), DoubleEq(0.08), DoubleEq(0.08), DoubleEq(1), DoubleEq(1), DoubleEq(0.055)));
}

TEST(Holm, OfOneIsItselfAndOfNoneIsNothing) {
  EXPECT_THAT(holm_adjusted(std::vector{0.2}), ElementsAre(0.2));
  EXPECT_TRUE(holm_adjusted({}).empty());
}

}  // namespace
}  // namespace attest
