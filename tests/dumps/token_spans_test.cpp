// The union of spans that overlap, touch, contain each other, or are empty.
#include "dumps/token_spans.h"

#include <gtest/gtest.h>

namespace attest {
namespace {

using Spans = std::vector<TokenSpan>;
using Tokens = std::vector<std::int64_t>;

TEST(TokenSpans, AreMerged) {
  EXPECT_EQ(merged_spans(Spans{}), Spans{});
  EXPECT_EQ(merged_spans(Spans{{5, 8}}), (Spans{{5, 8}}));
  EXPECT_EQ(merged_spans(Spans{{20, 22}, {5, 8}, {7, 10}}), (Spans{{5, 10}, {20, 22}}));
  EXPECT_EQ(merged_spans(Spans{{5, 8}, {8, 9}}), (Spans{{5, 9}})) << "neighbours";
  EXPECT_EQ(merged_spans(Spans{{5, 20}, {7, 8}, {19, 20}}), (Spans{{5, 20}})) << "one within another";
  EXPECT_EQ(merged_spans(Spans{{7, 7}, {0, 1}, {30, 30}}), (Spans{{0, 1}})) << "empty ones";
}

TEST(TokenSpans, TokensAreThoseOfTheUnion) {
  EXPECT_EQ(span_tokens(Spans{{20, 22}, {5, 8}, {7, 10}}), (Tokens{5, 6, 7, 8, 9, 20, 21}));
  EXPECT_EQ(span_tokens(Spans{{3, 3}}), Tokens{});
}

}  // namespace
}  // namespace attest
