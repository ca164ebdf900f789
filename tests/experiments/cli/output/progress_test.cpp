// The text of progress lines.
#include "experiments/cli/output/progress.h"

#include <gtest/gtest.h>

namespace attest {
namespace {

TEST(Progress, SaysRateAndTimeLeft) {
  EXPECT_EQ(progress_text(12, 32, 12, 4, "layers"), "12 of 32 layers, 3.00 layers/s, 0:07 left");
  EXPECT_EQ(progress_text(1, 7200, 1, 1, "layers"), "1 of 7200 layers, 1.00 layers/s, 1:59:59 left");
}

TEST(Progress, TheRateIsThatOfThisRun) {
  EXPECT_EQ(progress_text(30, 40, 5, 10, "layers"), "30 of 40 layers, 0.50 layers/s, 0:20 left");
  EXPECT_EQ(progress_text(25, 40, 0, 10, "layers"), "25 of 40 layers") << "nothing to tell a rate from";
}

TEST(Progress, TheEndSaysHowLongItTook) {
  EXPECT_EQ(progress_text(32, 32, 32, 61.5, "layers"), "32 of 32 layers, 0.52 layers/s, 1:02 in all");
}

}  // namespace
}  // namespace attest
