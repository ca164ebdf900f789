// Numbers and items in typed text.
#include "dumps/base/text_parts.h"

#include <gtest/gtest.h>

#include <cmath>

namespace attest {
namespace {

using Items = std::vector<std::string_view>;

TEST(TextParts, ANumberIsTheWholeText) {
  EXPECT_EQ(parse_number<int>("-12"), -12);
  EXPECT_EQ(parse_number<double>("1e-3"), 1e-3);
  EXPECT_EQ(parse_number<std::int64_t>("9223372036854775807"), 9223372036854775807);
  for (const char* const text : {"", "+1", " 1", "1 ", "1x", "x", "2147483648", "1.5"})
    EXPECT_EQ(parse_number<int>(text), std::nullopt) << text;
  EXPECT_TRUE(std::isnan(*parse_number<double>("nan"))) << "callers refuse what they cannot take";
  EXPECT_EQ(parse_number<double>("1e3", std::chars_format::fixed), std::nullopt);
  EXPECT_EQ(parse_number<double>("1e999"), std::nullopt);
}

TEST(TextParts, AWholeNumberIsNotNegative) {
  EXPECT_EQ(parse_whole<int>("0"), 0);
  EXPECT_EQ(parse_whole<int>("-1"), std::nullopt);
}

TEST(TextParts, AnIndexHasItsUsualSpelling) {
  EXPECT_EQ(parse_index("7", 8), 7);
  EXPECT_EQ(parse_index("12"), 12);
  for (const char* const name : {"8", "-1", "-0", "07", "+7", "7 ", "seven", ""})
    EXPECT_EQ(parse_index(name, 8), std::nullopt) << name;
}

TEST(TextParts, WhatIsTakenIsGone) {
  std::string_view text = "12(x3)";
  EXPECT_EQ(take_index(text), 12);
  EXPECT_FALSE(take(text, "x"));
  EXPECT_TRUE(take(text, "(x"));
  EXPECT_EQ(take_number<double>(text), 3);
  EXPECT_EQ(text, ")");
  EXPECT_EQ(take_index(text), std::nullopt);
  EXPECT_EQ(text, ")") << "what is no number stays";
}

TEST(TextParts, ItemsStandBetweenSeparators) {
  EXPECT_EQ(split("a,b", ','), (Items{"a", "b"}));
  EXPECT_EQ(split(",a,,", ','), (Items{"", "a", "", ""}));
  EXPECT_EQ(split("", ','), Items{""});
  EXPECT_EQ(trimmed("  a b "), "a b");
  EXPECT_EQ(trimmed("   "), "");
  EXPECT_EQ(trimmed_items(" 5, 7 0 ,"), (Items{"5", "7 0", ""}));
}

}  // namespace
}  // namespace attest
