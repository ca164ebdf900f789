// Aligned text: widths by shown characters, no spaces at the ends of lines.
#include "experiments/cli/output/aligned_text.h"

#include <gtest/gtest.h>

#include <limits>

namespace attest {
namespace {

TEST(AlignedText, NamesAreLeftAndNumbersRight) {
  EXPECT_EQ(aligned_text({{"name", "", "x"}, {"a", "10", "2.5"}, {"bb", "", ""}}, 1),
            "name        x\n"
            "a     10  2.5\n"
            "bb\n");
  EXPECT_EQ(aligned_text({}, 1), "");
}

TEST(AlignedText, CountsCharactersNotBytes) {
  EXPECT_EQ(aligned_text({{"\xC3\xA9", "1"}, {"ab", "2"}}, 1), "\xC3\xA9   1\nab  2\n");
}

TEST(AlignedText, DigitsFollowTheUnit) {
  EXPECT_EQ(formatted(0.12345, "ratio"), "12.35%");
  EXPECT_EQ(formatted(0.999996, "cosine"), "1.00000");
  EXPECT_EQ(formatted(0.12345, "nats"), "0.1235");
  EXPECT_EQ(formatted(std::numeric_limits<double>::quiet_NaN(), "ratio"), "-");
}

}  // namespace
}  // namespace attest
