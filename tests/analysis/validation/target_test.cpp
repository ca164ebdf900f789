// Targets: what is accepted and refused, what float32 meets, deficits.
#include "analysis/validation/target.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "dumps/base/error.h"
#include "tests/message_of.h"

namespace attest {
namespace {

using ::testing::HasSubstr;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(Target, Parses) {
  const Target target = parse_target(" recall.min  >=  0.999 ");
  EXPECT_EQ(target.text, "recall.min>=0.999");
  EXPECT_TRUE(target.at_least);
  EXPECT_EQ(target.value, 0.999);
  EXPECT_EQ(target.quantity.statistic, CellStatistic::min);
  EXPECT_EQ(parse_target("recall.mean>=0.9").text, "recall>=0.9");
  EXPECT_EQ(parse_target("lse_error.p99.9<=1e-2").text, "lse_error.p99.9<=1e-2");
  EXPECT_EQ(parse_target("lse_error.median<=.5").quantity.level, 0.5);
  EXPECT_FALSE(parse_target("dropped_mass<=0.01").at_least);
  EXPECT_TRUE(parse_target("mass_recall_deficit.max<=0.01").quantity.deficit);
  EXPECT_EQ(parse_target("span_recall>=0.9").quantity.stored_metric(), "recall");
  EXPECT_EQ(parse_target("recall.worst>=0.9").quantity.statistic, CellStatistic::min);
}

TEST(Target, RefusesEverythingElse) {
  for (const char* text : {"",
                           "recall",
                           "0.999",
                           ">=0.999",
                           "recall>0.999",
                           "recall=0.999",
                           "recall==0.999",
                           "recall=>0.999",
                           "recall>=",
                           "recall>= ",
                           "recall>=nan",
                           "recall>=inf",
                           "recall>=-inf",
                           "recall>=0.9x",
                           "recall>=0x1",
                           "recall>=0,9",
                           "recall>=1e-400",
                           "recall>=1e400",
                           "recall>=+0.9",
                           "recall>=0.9 0.8",
                           "recall>=99%",
                           "no_such>=1",
                           "recall.>=0.9",
                           "recall.p>=0.9",
                           "recall.p101>=0.9",
                           "recall.p-1>=0.9",
                           "recall.pnan>=0.9",
                           "recall.p1e1>=0.9",
                           "recall.count>=3",
                           "recall.std<=0.1",
                           "recall.minimum>=0.9",
                           ".min>=0.9",
                           "lse>=3",
                           "span_mass>=0.1",
                           "scan_error_tail<=0.1",
                           "recall>=1.01",
                           "lse_error<=-0.1",
                           "mass_recall_deficit>=1.1",
                           "recall<=-1.5",
                           "lse_error_deficit<=0.1",
                           "recall_deficit<=-0.1",
                           "keep_ratio<=-1",
                           "\x1b[31m>=1"}) {
    const std::string message = message_of<UsageError>([&] { parse_target(text); });
    EXPECT_THAT(message, HasSubstr("--target")) << text;
    for (const char c : message) EXPECT_TRUE(c >= ' ' && c != 0x7f) << text;
  }
}

/// The worst settings would meet it, and be certified.
TEST(Target, AgainstTheBetterDirectionIsRefused) {
  for (const char* text : {"lse_error>=0.001", "lse_error.max>=0", "recall<=0.5", "span_recall.min<=0.9",
                           "dropped_mass>=0.1", "recall_deficit>=0.1", "keep_ratio>=0.1", "output_error>=1"})
    EXPECT_THAT(message_of<UsageError>([&] { parse_target(text); }), HasSubstr("is better for")) << text;
  for (const char* text : {"scan_error_mean<=1", "scan_error_mean>=-1", "salient_ratio<=0.5", "dropped_gap>=5"})
    EXPECT_NO_THROW(parse_target(text)) << text;
}

TEST(Target, HasAWorstValueWhereTheMetricHas) {
  EXPECT_EQ(parse_target("recall>=0.9").worst_value(), -1);
  EXPECT_EQ(parse_target("mass_recall.min>=0.9").worst_value(), 0);
  EXPECT_EQ(parse_target("dropped_mass<=0.9").worst_value(), 1);
  EXPECT_EQ(parse_target("recall_deficit<=0.9").worst_value(), 2);
  EXPECT_EQ(parse_target("keep_ratio<=0.9").worst_value(), 1);
  EXPECT_EQ(parse_target("dropped_gap>=1").worst_value(), 0);
  EXPECT_EQ(parse_target("lse_error<=1").worst_value(), std::nullopt);
}

TEST(Target, ListsRefuseOneNumberTwice) {
  using Texts = std::vector<std::string>;
  EXPECT_EQ(parse_targets(Texts{"scan_error_mean>=-1", "scan_error_mean<=1", "recall.min>=0.9"}).size(), 3u);
  EXPECT_THAT(message_of<UsageError>([] {
                parse_targets(Texts{"recall>=0.9", "recall.mean>=0.8"});
              }),
              HasSubstr("same number"));
}

/// Values as typed, stored as float32 and read again, meet the target; the next float32 on the bad side does not.
TEST(Target, Float32RoundingOfTheValueMeetsIt) {
  for (const double value : {0.999, 0.9999, 0.99999, 0.9, 0.1, 0.01, 1.0, 0.0}) {
    const auto stored = static_cast<float>(value);
    Target minimum = parse_target("recall>=0.9"), maximum = parse_target("lse_error<=0.9");
    minimum.value = maximum.value = value;
    EXPECT_TRUE(minimum.is_met_by(stored)) << value;
    EXPECT_TRUE(maximum.is_met_by(stored)) << value;
    if (value == 0) continue;
    EXPECT_FALSE(minimum.is_met_by(std::nextafter(std::nextafter(stored, -1.0F), -1.0F))) << value;
    EXPECT_FALSE(maximum.is_met_by(std::nextafter(std::nextafter(stored, 2.0F), 2.0F))) << value;
  }
}

/// The float32 that is stored is 1 - the deficit, whose rounding is far coarser than that of a small deficit.
TEST(Target, Float32RoundingOfADeficit) {
  for (const double value : {0.001, 0.0001, 0.00001, 0.3, 1e-6}) {
    const auto stored = static_cast<float>(1 - value);
    Target target = parse_target("recall_deficit<=0.1");
    target.value = value;
    EXPECT_TRUE(target.is_met_by(1 - static_cast<double>(stored))) << value;
    EXPECT_FALSE(target.is_met_by(1 - static_cast<double>(std::nextafter(std::nextafter(stored, 0.F), 0.F)))) << value;
  }
}

TEST(Target, UndefinedNumbersMeetNothing) {
  EXPECT_FALSE(parse_target("recall>=0").is_met_by(std::nan("")));
  EXPECT_FALSE(parse_target("lse_error<=1").is_met_by(std::nan("")));
  EXPECT_FALSE(parse_target("lse_error<=1").is_met_by(kInfinity));
}

TEST(Target, Deficits) {
  const Target recall = parse_target("recall>=0.99"), error = parse_target("lse_error<=0.05");
  EXPECT_TRUE(recall.has_deficit());
  EXPECT_TRUE(error.has_deficit());
  EXPECT_NEAR(recall.allowed_deficit(), 0.01, 1e-15);
  EXPECT_EQ(error.allowed_deficit(), 0.05);
  EXPECT_EQ(recall.deficit(1.0000001), 0);
  EXPECT_EQ(recall.deficit(-1), 2);
  EXPECT_EQ(parse_target("dropped_mass<=0.02").allowed_deficit(), 0.02);
  EXPECT_TRUE(parse_target("mass_recall_deficit<=0.02").has_deficit());
  EXPECT_FALSE(parse_target("dropped_gap>=5").has_deficit());
  EXPECT_FALSE(parse_target("scan_error_mean<=0.5").has_deficit()) << "it may be below 0";
}

TEST(Target, RelativeDeficitsPutTargetsOnOneScale) {
  for (const char* text : {"recall>=0.99", "recall.min>=1", "lse_error<=0.05", "lse_error<=0", "dropped_gap>=5",
                           "scan_error_mean<=0.5", "dropped_mass<=0.001"}) {
    const Target target = parse_target(text);
    double before = -1;
    for (int i = 0; i <= 2000; ++i) {
      // From better to worse, in steps that come near the value.
      const double away = std::pow(10, -9 + 9.0 * i / 2000),
                   x = target.at_least ? target.value - away : target.value + away;
      const double bad = target.relative_deficit(x);
      EXPECT_GE(bad, before) << text << ' ' << x;
      before = bad;
      if (target.is_met_by(x)) {
        EXPECT_LE(bad, 1) << text << ' ' << x;
      } else {
        EXPECT_GT(bad, 1) << text << ' ' << x;
      }
    }
    EXPECT_LE(target.relative_deficit(target.value), 1) << text;
    for (const double x : {kInfinity, -kInfinity}) EXPECT_FALSE(std::isnan(target.relative_deficit(x))) << text;
  }
  EXPECT_NEAR(parse_target("recall>=0.99").relative_deficit(0.97), 3, 1e-9);
  EXPECT_NEAR(parse_target("lse_error<=0.05").relative_deficit(0.1), 2, 1e-12);
  EXPECT_EQ(parse_target("recall>=1").relative_deficit(1), 0);
}

TEST(Target, DenseValues) {
  EXPECT_EQ(parse_target("recall>=0.9").dense_value(), 1);
  EXPECT_EQ(parse_target("recall_deficit<=0.1").dense_value(), 0);
  EXPECT_EQ(parse_target("span_recall>=0.9").dense_value(), 1);
  EXPECT_EQ(parse_target("dropped_mass<=0.1").dense_value(), 0);
  EXPECT_EQ(parse_target("lse_error<=0.1").dense_value(), 0);
  EXPECT_EQ(parse_target("output_error<=0.1").dense_value(), 0);
  EXPECT_EQ(parse_target("io_ratio<=0.1").dense_value(), 1);
  EXPECT_EQ(parse_target("keep_ratio<=0.1").dense_value(), 1);
  EXPECT_EQ(parse_target("spearman>=0.1").dense_value(), std::nullopt);
  EXPECT_EQ(parse_target("span_mass_kept>=0.1").dense_value(), std::nullopt);
}

}  // namespace
}  // namespace attest
