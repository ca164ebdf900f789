// A selector's text: name, options, and what is wrong with others.
#include "kernels/selectors/selector_text.h"

#include <gtest/gtest.h>

namespace attest {
namespace {

TEST(SelectorText, NameAndOptions) {
  SelectorSpec spec;
  EXPECT_EQ(parse_selector_text("ffd:path=/a=b,bits=4", spec), "");
  EXPECT_EQ(spec.name, "ffd");
  EXPECT_EQ(spec.options, (OptionPairs{{"path", "/a=b"}, {"bits", "4"}}));
  SelectorSpec plain;
  EXPECT_EQ(parse_selector_text("quest", plain), "");
  EXPECT_EQ(plain.name, "quest");
  EXPECT_TRUE(plain.options.empty());
}

TEST(SelectorText, IsMadeOfItsParts) {
  for (const std::string text : {"quest", "ffd:gqa=per_head", "ffd:path=/a=b,bits=4"}) {
    SelectorSpec spec;
    ASSERT_EQ(parse_selector_text(text, spec), "");
    EXPECT_EQ(selector_text(spec), text);
  }
}

TEST(SelectorText, SaysWhatIsWrong) {
  const auto wrong = [](std::string_view text) {
    SelectorSpec spec;
    return parse_selector_text(text, spec);
  };
  EXPECT_EQ(wrong(""), "it names no selector");
  EXPECT_EQ(wrong(":bits=4"), "it names no selector");
  EXPECT_EQ(wrong("ffd:"), "'' is no option=value");
  EXPECT_EQ(wrong("ffd:=4"), "'=4' is no option=value");
  EXPECT_EQ(wrong("ffd:bits=4,"), "'' is no option=value");
}

}  // namespace
}  // namespace attest
