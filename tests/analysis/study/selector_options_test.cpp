// Options of a selector with and without their defaults.
#include "analysis/study/selector_options.h"

#include <gtest/gtest.h>

namespace attest {
namespace {

TEST(SelectorOptions, AreThoseOfTheText) {
  EXPECT_EQ(selector_options(R"({"bits": "2", "block": 128})"), (SelectorOptions{{"bits", "2"}, {"block", "128"}}));
  for (const char* text : {"", "[1]", "{", "3"}) EXPECT_TRUE(selector_options(text).empty()) << text;
}

TEST(SelectorOptions, DefaultsFillInWhatIsNotGiven) {
  const SelectorOptions all = completed_options("ffd", {{"block", "64"}});
  EXPECT_EQ(all.at("block"), "64");
  EXPECT_EQ(all.at("gqa"), "union");
  EXPECT_EQ(completed_options("ffd", all), all);
  const SelectorOptions unknown{{"an_option_of_tomorrow", "1"}};
  EXPECT_EQ(completed_options("ffd", unknown), unknown);
}

TEST(SelectorOptions, TheSameSelectorWhateverIsSaidOfIt) {
  const SelectorOptions studied = completed_options("ffd", {}), given{{"gqa", "union"}}, other{{"gqa", "per_head"}};
  EXPECT_TRUE(same_options(studied, {}, studied));
  EXPECT_TRUE(same_options(studied, given, completed_options("ffd", given)));
  EXPECT_FALSE(same_options(studied, other, completed_options("ffd", other)));
  EXPECT_FALSE(same_options(studied, {{"an_option_of_tomorrow", "1"}}, studied));
  SelectorOptions older = studied;
  older.erase("gqa");
  EXPECT_TRUE(same_options(older, {}, studied)) << "results of a program that did not know the option";
}

TEST(SelectorOptions, FilesOfPrograms) {
  EXPECT_TRUE(same_options("quest", R"({"page":"16"})", R"({"page":"16","dense_heads":""})"));
  EXPECT_TRUE(same_options("quest", R"({"page":"16"})", "{}")) << "16 is the default";
  EXPECT_TRUE(same_options("of_tomorrow", R"({"a":"1"})", R"({"a":"1","dense_heads":""})"));
  EXPECT_FALSE(same_options("quest", R"({"page":"32"})", "{}"));
  EXPECT_FALSE(same_options("quest", R"({"dense_heads":"7:0"})", R"({"dense_heads":""})"));
  EXPECT_FALSE(same_options("of_tomorrow", R"({"a":"1"})", R"({"a":"2"})"));
}

}  // namespace
}  // namespace attest
