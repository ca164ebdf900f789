// Settings as typed against those of a study.
#include "analysis/study/typed_setting.h"

#include <gtest/gtest.h>

#include <limits>

namespace attest {
namespace {

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
