// How long a number has stood still.
#include "analysis/ranks/silence.h"

#include <gtest/gtest.h>

namespace attest {
namespace {

using std::chrono::milliseconds;

TEST(Silence, IsTheTimeSinceTheNumberChanged) {
  Silence silence(milliseconds(1000));
  const Silence::Clock::time_point start = Silence::Clock::now();
  const auto look = [&](const char* number, int at) { silence.look(number, start + milliseconds(at)); };
  look("1", 0);
  EXPECT_EQ(silence.time(), milliseconds(0));
  look("1", 400);
  look("1", 900);
  EXPECT_EQ(silence.time(), milliseconds(900));
  look("2", 1500);
  EXPECT_EQ(silence.time(), milliseconds(0));
  look("2", 1700);
  EXPECT_EQ(silence.time(), milliseconds(200));
}

TEST(Silence, ATimeWithoutALookCountsLittle) {
  Silence silence(milliseconds(1000));
  const Silence::Clock::time_point start = Silence::Clock::now();
  silence.look("1", start);
  silence.look("1", start + std::chrono::hours(3));
  EXPECT_EQ(silence.time(), milliseconds(1000));
  silence.look("1", start + std::chrono::hours(3) + milliseconds(50));
  EXPECT_EQ(silence.time(), milliseconds(1050));
}

}  // namespace
}  // namespace attest
