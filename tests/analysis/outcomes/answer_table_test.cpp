// Columns of the table have the lengths that their prompts have.
#include "analysis/outcomes/answer_table.h"

#include <gtest/gtest.h>

#include <map>

namespace attest {
namespace {

using Columns = std::map<std::string, std::size_t>;

/// Prompts by column, of prompts of one task and a dense run.
Columns columns_of(const std::vector<std::int64_t>& lengths) {
  TasksFile file{.path = "t.h5", .model = "m", .prompts = {}, .runs = {TaskRun{}}, .scores = {}, .kept_ratio = {}};
  for (const std::int64_t length : lengths)
    file.prompts.push_back({.name = std::to_string(file.prompts.size()), .task = "kv", .num_tokens = length});
  for (std::vector<Score>& scores : file.scores) scores.assign(lengths.size(), Score::right);
  file.kept_ratio.assign(lengths.size(), 1);
  Columns columns;
  for (const AnswerTable::Column& column : answer_table(file).columns) columns[column.name] = column.prompts;
  return columns;
}

TEST(AnswerTable, LengthsThatAreNoPowersOfTwoAreShownAsTheyAre) {
  EXPECT_EQ(columns_of({16380, 16384, 24560, 24576, 32768}), (Columns{{"kv 16K", 2}, {"kv 24K", 2}, {"kv 32K", 1}}));
  EXPECT_EQ(columns_of({500, 1536, 5000}), (Columns{{"kv 500", 1}, {"kv 1.5K", 1}, {"kv 4.9K", 1}}));
}

TEST(AnswerTable, NearLengthsAreARange) {
  EXPECT_EQ(columns_of({490, 500, 1000}), (Columns{{"kv 490-500", 2}, {"kv 1000", 1}}));
  EXPECT_EQ(columns_of({1000, 1024, 1}), (Columns{{"kv 1000-1K", 2}, {"kv 1", 1}}));
  EXPECT_EQ(columns_of({24576, 24500}), (Columns{{"kv", 2}}));
}

TEST(AnswerTable, ManyLengthsAreFewColumns) {
  std::vector<std::int64_t> lengths;
  for (std::int64_t length = 1024; length < 16384; length += 512) lengths.push_back(length);
  EXPECT_EQ(columns_of(lengths), (Columns{{"kv 1K-1.5K", 2}, {"kv 2K-3.5K", 4}, {"kv 4K-7.5K", 8}, {"kv 8K-16K", 16}}));
}

}  // namespace
}  // namespace attest
