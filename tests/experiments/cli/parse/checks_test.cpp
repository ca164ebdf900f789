// Times as they are typed.
#include "experiments/cli/parse/checks.h"

#include <gtest/gtest.h>

namespace attest {
namespace {

TEST(Duration, SecondsOrHoursMinutesSeconds) {
  const auto seconds = [](const char* text) { return parse_duration(text).value().count() / 1000.0; };
  EXPECT_DOUBLE_EQ(seconds("90"), 90);
  EXPECT_DOUBLE_EQ(seconds("0.5"), 0.5);
  EXPECT_DOUBLE_EQ(seconds("1:30"), 90);
  EXPECT_DOUBLE_EQ(seconds("1:00:00"), 3600);
  EXPECT_DOUBLE_EQ(seconds("48:00:01"), 48 * 3600 + 1);
}

TEST(Duration, OtherTextIsRefused) {
  for (const char* text : {"", "0", "0:00", "-1", "x", "1h", "1:", ":1", "1:60", "1:2:3:4", "1.5:00", "inf", "nan",
                           "1e9", "0.0001", "99999999999", " 1", "1 "})
    EXPECT_FALSE(parse_duration(text)) << text;
}

}  // namespace
}  // namespace attest
