// Parsing the arguments of --layers, --samples and --queries.
#include "experiments/cli/options/study_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "dumps/base/error.h"
#include "tests/message_of.h"

namespace attest {
namespace {

using Ranges = std::vector<std::pair<int, int>>;

TEST(StudyChoice, Layers) {
  EXPECT_EQ(parse_layers("0-31"), (Ranges{{0, 31}}));
  EXPECT_EQ(parse_layers("0, 5 ,8-11"), (Ranges{{0, 0}, {5, 5}, {8, 11}}));
  EXPECT_EQ(parse_layers("2,8-"), (Ranges{{2, 2}, {8, kOpenEnd}}));
  for (const char* text : {"", "a", "3-1", "-1", "-", "1--2", "1,,2", "99999999999", "1.5"})
    EXPECT_THROW(parse_layers(text), UsageError) << text;
  EXPECT_EQ(message_of<UsageError>([] { parse_layers("0,3-1"); }),
            "--layers: '3-1' is neither a layer number nor a range such as 0-31 or 8-");
  EXPECT_EQ(message_of<UsageError>([] { parse_ranges("3-1", "--units", "unit"); }),
            "--units: '3-1' is neither a unit number nor a range such as 0-31 or 8-");
}

TEST(StudyChoice, Queries) {
  EXPECT_EQ(parse_queries("all").kind, QueryChoice::Kind::all);
  EXPECT_EQ(parse_queries("last:4").last, 4);
  EXPECT_EQ(parse_queries("1000, 2047").positions, (std::vector<std::int64_t>{1000, 2047}));
  for (const char* text : {"", "last", "last:", "last:0", "last:-1", "last:x", "first:2", "1,-2", "1,"})
    EXPECT_THROW(parse_queries(text), UsageError) << text;
  EXPECT_EQ(message_of<UsageError>([] { parse_queries("first"); }),
            "--queries: 'first' is not a position; expected all, last:N or positions");
}

TEST(StudyChoice, Names) { EXPECT_EQ(parse_names("a,b c"), (std::vector<std::string>{"a", "b c"})); }

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
