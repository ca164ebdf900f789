// Text from files: what a terminal obeys or cannot show is escaped, everything else stays.
#include "dumps/base/printable.h"

#include <gtest/gtest.h>

namespace attest {
namespace {

TEST(Printable, KeepsText) {
  for (const char* text : {"", "plain 'text' \\x41", "Grüße, 東京 \U0001f600", "\xf4\x8f\xbf\xbd"})
    EXPECT_EQ(printable(text), text);
}

TEST(Printable, EscapesControlCharacters) {
  EXPECT_EQ(printable("a\x1b[31m\nb\x7f"), R"(a\x1b[31m\x0ab\x7f)");
  EXPECT_EQ(printable(std::string_view("a\0b", 3)), R"(a\x00b)");
  EXPECT_EQ(printable("\xc2\x9b"), R"(\u009b)") << "C1: begins a terminal sequence";
  EXPECT_EQ(printable("\u202egpj.exe\u2028\u200b"), R"(\u202egpj.exe\u2028\u200b)");
  EXPECT_EQ(printable("\U000e0041"), R"(\U000e0041)");
}

TEST(Printable, EscapesBytesThatAreNoUtf8) {
  EXPECT_EQ(printable("a\xff\xfe"), R"(a\xff\xfe)");
  EXPECT_EQ(printable("\xc0\xaf"), R"(\xc0\xaf)") << "longer than needed";
  EXPECT_EQ(printable("\xed\xa0\x80"), R"(\xed\xa0\x80)") << "a surrogate";
  EXPECT_EQ(printable("\xe6\x9d"), R"(\xe6\x9d)") << "cut off";
  EXPECT_EQ(printable("\xf5\x80\x80\x80"), R"(\xf5\x80\x80\x80)");
}

TEST(Excerpt, CutsWhatIsLong) {
  EXPECT_EQ(excerpt("abc", 3), "abc");
  EXPECT_EQ(excerpt("abcd", 3), "abc...");
  EXPECT_EQ(excerpt("a\nbcd", 3), R"(a\x0ab...)");
  EXPECT_EQ(excerpt("ab\xc3\xa4", 3), "ab...") << "no part of a character";
  EXPECT_EQ(excerpt("\x80\x80\x80\x80", 2), "...") << "no UTF-8";
  EXPECT_EQ(excerpt(std::string(300, 'x')), std::string(200, 'x') + "...");
}

}  // namespace
}  // namespace attest
