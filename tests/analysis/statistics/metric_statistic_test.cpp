// METRIC[.STAT] of cells, against numbers worked out by hand.
#include "analysis/statistics/metric_statistic.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "dumps/base/error.h"

namespace attest {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

double value(const char* typed, std::vector<float> cells) { return statistic_of(cells, parse_metric_statistic(typed)); }

TEST(MetricStatistic, LeavesUndefinedCellsOut) {
  const std::vector<float> cells = {kNaN, 0.25F, 1.0F, kNaN, 0.5F, 0.25F};
  EXPECT_DOUBLE_EQ(value("recall", cells), 0.5);
  EXPECT_DOUBLE_EQ(value("recall.min", cells), 0.25);
  EXPECT_DOUBLE_EQ(value("recall.max", cells), 1);
  EXPECT_DOUBLE_EQ(value("recall.count", cells), 4);
  EXPECT_DOUBLE_EQ(value("recall.median", cells), 0.375);
  EXPECT_DOUBLE_EQ(value("recall.p90", cells), 0.5 + 0.7 * 0.5);
  EXPECT_DOUBLE_EQ(value("recall.p97.5", cells), 0.5 + 0.925 * 0.5);
  EXPECT_DOUBLE_EQ(value("recall.std", cells), std::sqrt(0.375 / 4));
}

TEST(MetricStatistic, OfADeficit) {
  const std::vector<float> cells = {0.25F, 1.0F, 0.5F, 0.25F};
  EXPECT_DOUBLE_EQ(value("dropped_mass", cells), 0.5);
  EXPECT_DOUBLE_EQ(value("recall_deficit.max", cells), 0.75);
  EXPECT_DOUBLE_EQ(value("recall_deficit.min", cells), 0);
  EXPECT_DOUBLE_EQ(value("recall_deficit.p90", cells), 0.75);
}

/// Tables alone take a ladder, and parse it themselves.
TEST(MetricStatistic, NamesTheStatisticsThatItTakes) {
  try {
    parse_metric_statistic("recall.ladder");
    FAIL() << "no metric has a ladder here";
  } catch (const UsageError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("expected mean, std, min, max, worst, median, count or a quantile"), std::string::npos) << text;
  }
}

TEST(MetricStatistic, OfNoCells) {
  EXPECT_TRUE(std::isnan(value("recall", {kNaN})));
  EXPECT_TRUE(std::isnan(value("recall.min", {})));
  EXPECT_TRUE(std::isnan(value("recall.p5", {})));
  EXPECT_EQ(value("recall.count", {kNaN}), 0);
}

}  // namespace
}  // namespace attest
