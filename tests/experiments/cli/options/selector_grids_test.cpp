// Selectors and grids as typed: which selectors and settings they mean.
#include "experiments/cli/options/selector_grids.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dumps/base/error.h"

namespace attest {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string refusal(const SelectorGrids& options) {
  try {
    chosen_selectors(options);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
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

}  // namespace
}  // namespace attest
