// Lists of labels with commas, and settings by text and value.
#include "experiments/cli/results_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

namespace attest {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> items(const std::vector<std::string>& parts) {
  const std::vector<std::string> known{"a", "b", "a,b", "ffd:rule=topk,gqa=union"};
  return joined_items(parts, [&](const std::string& text) { return std::ranges::count(known, text) > 0; });
}

TEST(JoinedItems, TakesTheLongest) {
  EXPECT_THAT(items({"a", "b"}), ElementsAre("a,b"));
  EXPECT_THAT(items({"b", "a"}), ElementsAre("b", "a"));
  EXPECT_THAT(items({"ffd:rule=topk", "gqa=union", "a"}), ElementsAre("ffd:rule=topk,gqa=union", "a"));
  EXPECT_THAT(items({}), IsEmpty());
}

TEST(JoinedItems, KeepsWhatItDoesNotKnow) {
  EXPECT_THAT(items({"c", "a", "ffd:rule=topk"}), ElementsAre("c", "a", "ffd:rule=topk"));
}

TEST(IsSetting, ComparesTextAndValue) {
  const StudySelector selector{.label = {},
                               .name = {},
                               .options_json = {},
                               .grid = {{5}, {12.5, true}, {std::numeric_limits<double>::infinity()}},
                               .setting_labels = {"5.00", "12.5%", "inf"}};
  EXPECT_TRUE(is_setting(selector, 0, "5.00"));
  EXPECT_TRUE(is_setting(selector, 0, "5"));
  EXPECT_FALSE(is_setting(selector, 0, "5%"));
  EXPECT_TRUE(is_setting(selector, 1, "12.50%"));
  EXPECT_FALSE(is_setting(selector, 1, "12.5"));
  EXPECT_TRUE(is_setting(selector, 2, "inf"));
  EXPECT_FALSE(is_setting(selector, 0, ""));
}

}  // namespace
}  // namespace attest
