// The operator's selectors, which are made once for each text.
#include <gtest/gtest.h>

#include <string>

#include "analysis/torch_ops/attend.h"

namespace attest::test {
namespace {

std::shared_ptr<const Selector> dense_in(std::size_t layer) {
  return selector_of("quest:dense_layers=" + std::to_string(layer));
}

TEST(AttendArguments, OneSelectorIsForgottenForOneBeyondTheMost) {
  const auto often = selector_of("quest"), once = selector_of("ffd");
  for (std::size_t i = 0; i < kMaxSelectors - 1; ++i) {
    dense_in(i);
    EXPECT_EQ(selector_of("quest"), often) << "asked for again and again";
  }
  const auto last = dense_in(kMaxSelectors - 2), first = dense_in(0);
  EXPECT_EQ(dense_in(kMaxSelectors - 2), last);
  EXPECT_EQ(dense_in(0), first) << "only one made place";
  EXPECT_NE(selector_of("ffd"), once) << "not asked for longest";
}

}  // namespace
}  // namespace attest::test
