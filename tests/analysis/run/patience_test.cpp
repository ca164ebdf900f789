// The times at which a process that waits says for whom.
#include "analysis/run/patience.h"

#include <gtest/gtest.h>

namespace attest {
namespace {

TEST(Patience, NamesAHolderAfterAWhileAndThenAtIntervals) {
  Patience patience;
  std::string holder = "process 1";
  const Patience::Clock::time_point start;
  const auto at = [&](int seconds) {
    return patience.whom_to_name([&] { return holder; }, start + std::chrono::seconds(seconds));
  };
  EXPECT_EQ(at(5), "");
  EXPECT_EQ(at(14), "");
  EXPECT_EQ(at(15), "process 1");
  EXPECT_EQ(at(34), "");
  holder = "";
  EXPECT_EQ(at(35), "");
  holder = "process 2";
  EXPECT_EQ(at(36), "process 2") << "as soon as there is one";
  EXPECT_EQ(at(55), "");
  EXPECT_EQ(at(56), "process 2");
  patience.reset();
  EXPECT_EQ(at(100), "");
  EXPECT_EQ(at(110), "process 2");
}

}  // namespace
}  // namespace attest
