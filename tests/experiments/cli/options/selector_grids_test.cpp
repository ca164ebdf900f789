// The argument of --selector, and the settings of each selector.
#include "experiments/cli/options/selector_grids.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dumps/base/error.h"
#include "tests/message_of.h"

namespace attest {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string refusal(const SelectorGrids& options) {
  return message_of<UsageError>([&] { chosen_selectors(options); });
}

TEST(SelectorGrids, EachSelectorTakesTheGridOfItsKind) {
  const SelectorGrids options{.selectors = {"ffd", "few=quest:page=32", "exact"},
                              .grids = {{SettingKind::delta, "1,5,7"}}};
  const std::vector<StudySelector> selectors = chosen_selectors(options);
  ASSERT_EQ(selectors.size(), 3U);
  EXPECT_THAT(selectors[0].setting_labels, ElementsAre("1", "5", "7"));
  EXPECT_EQ(selectors[1].label, "few");
  EXPECT_EQ(selectors[1].name, "quest");
  EXPECT_THAT(selectors[1].options_json, HasSubstr(R"("page":"32")"));
  EXPECT_EQ(selectors[1].setting_labels.front(), "1024");  // the default grid
  EXPECT_THAT(selectors[2].setting_labels, ElementsAre(""));
  for (const StudySelector& selector : selectors) EXPECT_FALSE(selector.by_default);
}

TEST(SelectorGrids, WithoutSelectorsThoseOfEveryStudy) {
  const std::vector<StudySelector> selectors = chosen_selectors({});
  EXPECT_GT(selectors.size(), 3U);
  for (const StudySelector& selector : selectors) EXPECT_TRUE(selector.by_default);
}

TEST(SelectorGrids, RefusesWhatCannotBeMeant) {
  EXPECT_THAT(refusal({.selectors = {"ffd", "quest", "ffd"}, .grids = {}}), HasSubstr("have the label 'ffd'"));
  EXPECT_THAT(refusal({.selectors = {"ffd"}, .grids = {{SettingKind::p, "2"}}}), HasSubstr("--p: '2' is not"));
  EXPECT_THAT(refusal({.selectors = {"fdf"}, .grids = {}}), HasSubstr("--selector: "));
}

std::string complaint(std::string_view text) {
  return message_of<UsageError>([&] { parse_selector(text); });
}

TEST(SelectorArgument, IsANameWithOptions) {
  const SelectorSpec spec = parse_selector("ffd:bits=4,gqa=per_head");
  EXPECT_EQ(spec.label, "ffd:bits=4,gqa=per_head");
  EXPECT_EQ(spec.name, "ffd");
  EXPECT_EQ(spec.options, (OptionPairs{{"bits", "4"}, {"gqa", "per_head"}}));
  EXPECT_EQ(parse_selector("quest").label, "quest");
}

TEST(SelectorArgument, ALabelStandsBeforeTheFirstColon) {
  const SelectorSpec spec = parse_selector("my-label_1.0=ffd:bits=4");
  EXPECT_EQ(spec.label, "my-label_1.0");
  EXPECT_EQ(spec.name, "ffd");
  EXPECT_EQ(parse_selector("a=ffd").options.size(), 0u);
  EXPECT_EQ(parse_selector("a=x:path=/data/c.json,b=c=d").options,
            (OptionPairs{{"path", "/data/c.json"}, {"b", "c=d"}}));
}

TEST(SelectorArgument, LabelsAreOfPlainCharacters) {
  EXPECT_EQ(complaint("a b=ffd"),
            "--selector: 'a b=ffd': the label 'a b' is not made of letters, digits, '_', '.' and '-'; expected "
            "[LABEL=]NAME[:option=value,...]");
  for (const char* text : {"=ffd", "a/b=ffd", "ä=ffd", "a,b=ffd"}) EXPECT_NE(complaint(text), "") << text;
}

TEST(SelectorArgument, LabelsOfResultsFilesAreTaken) {
  for (const char* text : {"scores=ffd", "layers=ffd", "query_positions=ffd", ".=ffd", "scores"})
    EXPECT_NE(complaint(text).find("use for something else"), std::string::npos) << text;
}

TEST(SelectorArgument, ASlashNeedsALabel) {
  EXPECT_EQ(complaint("x:path=/data"),
            "--selector: 'x:path=/data': it holds a '/', so it needs a label of its own; expected "
            "[LABEL=]NAME[:option=value,...]");
}

TEST(SelectorArgument, OptionsHaveValues) {
  EXPECT_EQ(complaint("ffd:bits"),
            "--selector: 'ffd:bits': 'bits' is no option=value; expected [LABEL=]NAME[:option=value,...]");
  for (const char* text : {"", "a=", "ffd:", "ffd:bits=2,", "ffd:=2", ":bits=2"})
    EXPECT_NE(complaint(text), "") << text;
}

}  // namespace
}  // namespace attest
