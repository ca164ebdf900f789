// Names, lengths and order of a metric's axes.
#include "analysis/results/axes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iterator>

namespace attest {
namespace {

using ::testing::ElementsAre;

constexpr MetricAxes kAll[] = {MetricAxes::query_head, MetricAxes::query_head_setting, MetricAxes::query_head_lambda,
                               MetricAxes::query_setting, MetricAxes::query_setting_token};

TEST(Axes, AreNamedAsTheFormatSays) {
  EXPECT_THAT(axis_names(MetricAxes::query_head), ElementsAre("layer", "query", "head"));
  EXPECT_THAT(axis_names(MetricAxes::query_head_setting), ElementsAre("layer", "query", "head", "setting"));
  EXPECT_THAT(axis_names(MetricAxes::query_head_lambda), ElementsAre("layer", "query", "head", "lambda"));
  EXPECT_THAT(axis_names(MetricAxes::query_setting), ElementsAre("layer", "query", "setting"));
  EXPECT_THAT(axis_names(MetricAxes::query_setting_token), ElementsAre("layer", "query", "setting", "token"));
}

TEST(Axes, HaveTheLengthsOfTheirNames) {
  const AxisSizes sizes{.layers = 2, .queries = 3, .heads = 5, .settings = 7, .lambdas = 11, .tokens = 13};
  EXPECT_THAT(shape_of(MetricAxes::query_head, sizes), ElementsAre(2, 3, 5));
  EXPECT_THAT(shape_of(MetricAxes::query_head_setting, sizes), ElementsAre(2, 3, 5, 7));
  EXPECT_THAT(shape_of(MetricAxes::query_head_lambda, sizes), ElementsAre(2, 3, 5, 11));
  EXPECT_THAT(shape_of(MetricAxes::query_setting, sizes), ElementsAre(2, 3, 7));
  EXPECT_THAT(shape_of(MetricAxes::query_setting_token, sizes), ElementsAre(2, 3, 7, 13));
}

TEST(Axes, AreFoundByTheirNamesInOrder) {
  for (const MetricAxes axes : kAll) {
    const std::vector<std::string> names(axis_names(axes).begin(), axis_names(axes).end());
    EXPECT_EQ(axes_named(names), axes);
  }
  using Names = std::vector<std::string>;
  for (const Names& names : {Names{}, Names{"layer"}, Names{"layer", "query"}, Names{"layer", "head", "query"},
                             Names{"layer", "query", "head", "setting", "lambda"}, Names{"layer", "query", "lambda"},
                             Names{"layer", "query", "heads"}, Names{"", "", ""}})
    EXPECT_EQ(axes_named(names), std::nullopt) << ::testing::PrintToString(names);
}

TEST(Axes, AreFoundByTheirNumbersAndNoOthers) {
  for (const MetricAxes axes : kAll) EXPECT_EQ(axes_numbered(static_cast<int>(axes)), axes);
  for (const int number : {-1, static_cast<int>(std::size(kAll)), 1 << 20})
    EXPECT_EQ(axes_numbered(number), std::nullopt);
}

TEST(Axes, SettingsAreTheLastOfThoseThatHaveThem) {
  for (const MetricAxes axes : kAll) EXPECT_EQ(has_settings(axes), axis_names(axes).back() == "setting");
}

}  // namespace
}  // namespace attest
