// Lists of labels with commas, and settings by text and value.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "experiments/cli/options/study_choice.h"

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

}  // namespace
}  // namespace attest
