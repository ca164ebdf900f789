// The text of dense_heads, and what selectors make of it.
#include "kernels/selectors/dense_heads.h"

#include <gtest/gtest.h>

#include "dumps/base/error.h"
#include "kernels/selectors/registry.h"
#include "tests/message_of.h"

namespace attest::test {
namespace {

/// Whether a call is refused with these words.
template <class Call>
void expect_refusal(Call&& call, const std::string& words) {
  const std::string message = message_of<UsageError>(call);
  EXPECT_NE(message.find(words), std::string::npos) << message;
}

TEST(DenseHeads, AreLayersAndKvHeads) {
  DenseHeads heads;
  EXPECT_TRUE(parse_dense_heads("7:1+5:0+7:0", heads));
  EXPECT_EQ(heads, (DenseHeads{{5, 0}, {7, 0}, {7, 1}}));
  EXPECT_TRUE(parse_dense_heads("", heads));
  EXPECT_TRUE(heads.empty());
}

TEST(DenseHeads, RefuseOtherTexts) {
  DenseHeads heads{{1, 1}};
  for (const char* text : {"7", "7:", ":1", "7:1+", "+7:1", "7:1,5:0", "-1:0", "7:-1", "+7:+1", "7:1 ", "7:1+7:1",
                           "99999999999:0", "a:b", "7:1:2"})
    EXPECT_FALSE(parse_dense_heads(text, heads)) << text;
  EXPECT_EQ(heads, (DenseHeads{{1, 1}}));
}

TEST(DenseHeads, EverySelectorButExactHasThem) {
  for (const SelectorInfo* info : all_selectors()) {
    const std::string name(info->name);
    if (name == "exact" || name == "double_sparsity" || name == "imported") continue;  // those need further options
    const auto selector = make_selector({name, name, {{"dense_layers", "2"}, {"dense_heads", "7:1+5:0"}}});
    for (int layer = 0; layer < 9; ++layer)
      for (int head = 0; head < 2; ++head)
        EXPECT_EQ(selector->is_dense(layer, head), layer < 2 || (layer == 7 && head == 1) || (layer == 5 && head == 0))
            << name << " " << layer << " " << head;
    EXPECT_NO_THROW(selector->check_layer(7, 2)) << name;
    expect_refusal([&] { selector->check_layer(7, 1); },
                   "selector '" + name + "': option 'dense_heads' has 7:1, and layer 7 has 1 KV head");
  }
  expect_refusal(
      [] {
        make_selector({"quest", "quest", {{"dense_heads", "7"}}});
      },
      "selector 'quest': option 'dense_heads' is '7', expected KV heads as LAYER:HEAD joined by '+', such as 7:1+5:0");
}

}  // namespace
}  // namespace attest::test
