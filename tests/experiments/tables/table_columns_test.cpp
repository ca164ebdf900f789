// Columns from METRIC[.STAT]: names, directions, ladders.
#include "experiments/tables/table_columns.h"

#include <gtest/gtest.h>

#include "dumps/base/error.h"

namespace attest {
namespace {

std::vector<std::string> names_of(const std::vector<std::string>& typed) {
  std::vector<std::string> names;
  for (const MetricStatistic& column : parse_columns(typed)) names.push_back(column.name());
  return names;
}

TEST(TableColumns, MeanIsTheDefault) {
  EXPECT_EQ(names_of({"recall", "block_keep_ratio", "span_recall", "entropy"}),
            (std::vector<std::string>{"recall.mean", "block_keep_ratio.mean", "span_recall.mean", "entropy.mean"}));
}

TEST(TableColumns, ALadderIsOfTheDeficitWhereOneIsTheBest) {
  EXPECT_EQ(names_of({"recall.ladder"}),
            (std::vector<std::string>{"recall_deficit.mean", "recall_deficit.median", "recall_deficit.p95",
                                      "recall_deficit.p99", "recall_deficit.p99.9", "recall_deficit.worst"}));
  EXPECT_EQ(names_of({"mass_recall.ladder"}), names_of({"dropped_mass.ladder"}));
  EXPECT_EQ(names_of({"lse_error.ladder"}).back(), "lse_error.worst");
  EXPECT_EQ(names_of({"dropped_gap.ladder"}).at(4), "dropped_gap.p0.1");
}

TEST(TableColumns, WorstFollowsTheDirection) {
  const auto worst = [](const std::string& typed) { return parse_columns(std::vector{typed}).front().statistic; };
  EXPECT_EQ(worst("recall.worst"), CellStatistic::min);
  EXPECT_EQ(worst("recall_deficit.worst"), CellStatistic::max);
  EXPECT_EQ(worst("lse_error.worst"), CellStatistic::max);
  EXPECT_EQ(worst("dropped_gap.worst"), CellStatistic::min);
}

TEST(TableColumns, QuantilesAreInPerCent) {
  const MetricStatistic column = parse_columns(std::vector<std::string>{"lse_error.p99.9"}).front();
  EXPECT_EQ(column.statistic, CellStatistic::quantile);
  EXPECT_DOUBLE_EQ(column.level, 0.999);
}

TEST(TableColumns, OthersAreRefused) {
  for (const char* typed : {"", "recal", "recall.", "recall.mode", "recall.p", "recall.p1e1", "recall.p100.1",
                            "entropy_deficit", "scan_error_tail"})
    EXPECT_THROW(parse_columns(std::vector<std::string>{typed}), UsageError) << typed;
}

}  // namespace
}  // namespace attest
