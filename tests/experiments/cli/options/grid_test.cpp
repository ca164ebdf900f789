// Grids of settings: values, labels, ranges and errors.
#include "experiments/cli/options/grid.h"

#include <gtest/gtest.h>

#include <cmath>

#include "dumps/base/error.h"
#include "tests/message_of.h"

namespace attest {
namespace {

std::vector<double> values(const Grid& grid) {
  std::vector<double> result;
  for (const Setting& setting : grid.settings) result.push_back(setting.value);
  return result;
}

std::string complaint(SettingKind kind, std::string_view text) {
  return message_of<UsageError>([&] { parse_grid(kind, text); });
}

TEST(Grid, ListsKeepOrderAndSpelling) {
  const Grid grid = parse_grid(SettingKind::delta, "7,5.0,inf,0, 1e1");
  EXPECT_EQ(values(grid), (std::vector<double>{7, 5, INFINITY, 0, 10}));
  EXPECT_EQ(grid.labels, (std::vector<std::string>{"7", "5.0", "inf", "0", "1e1"}));
}

TEST(Grid, RangesIncludeBothEnds) {
  const Grid grid = parse_grid(SettingKind::delta, "1:12:0.5");
  ASSERT_EQ(grid.settings.size(), 23u);
  EXPECT_EQ(grid.labels.front(), "1");
  EXPECT_EQ(grid.labels[1], "1.5");
  EXPECT_EQ(grid.labels.back(), "12");
  EXPECT_EQ(parse_grid(SettingKind::delta, "1:2:0.3").labels, (std::vector<std::string>{"1", "1.3", "1.6", "1.9"}));
  EXPECT_EQ(parse_grid(SettingKind::delta, "5:5:1,9").labels, (std::vector<std::string>{"5", "9"}));
}

TEST(Grid, RangesHaveTheDecimalsThatWereMeant) {
  // In binary, 0.1 + 2 * 0.1 is 0.30000000000000004 and 0.7 / 0.1 is below 7.
  const Grid grid = parse_grid(SettingKind::p, "0.1:0.8:0.1");
  EXPECT_EQ(grid.labels, (std::vector<std::string>{"0.1", "0.2", "0.3", "0.4", "0.5", "0.6", "0.7", "0.8"}));
  EXPECT_EQ(values(grid)[2], 0.3);
}

TEST(Grid, RangesMayHaveExponents) {
  const auto labels = [](const char* text) { return parse_grid(SettingKind::delta, text).labels; };
  EXPECT_EQ(labels("1:1e3:1").size(), 1000u);
  EXPECT_EQ(labels("0:1.5e3:5E+2"), (std::vector<std::string>{"0", "500", "1000", "1500"}));
  EXPECT_EQ(labels("1e-1:5e-1:1e-1"), (std::vector<std::string>{"0.1", "0.2", "0.3", "0.4", "0.5"}));
  EXPECT_EQ(labels("0:4.5e-2:1.5e-2"), (std::vector<std::string>{"0", "0.015", "0.03", "0.045"}));
  EXPECT_EQ(labels("1e300:1e300:1e-15"), (std::vector<std::string>{"1e+300"})) << "no overflow";
}

TEST(Grid, BudgetsAreTokensOrPerCent) {
  const Grid grid = parse_grid(SettingKind::budget, "1024,12.5%,100%");
  EXPECT_EQ(grid.settings, (std::vector<Setting>{{1024, false}, {12.5, true}, {100, true}}));
  EXPECT_EQ(grid.labels[1], "12.5%");
  EXPECT_EQ(parse_grid(SettingKind::budget, "10%:30%:10%").labels, (std::vector<std::string>{"10%", "20%", "30%"}));
}

TEST(Grid, ValuesOutsideTheirDomainAreRefused) {
  for (const char* text : {"-1", "x", "", "5,", "nan", "-inf", "5 7", "1:2", "1:2:3:4"})
    EXPECT_NE(complaint(SettingKind::delta, text), "") << text;
  for (const char* text : {"0", "101%", "0%", "1.5", "-3", "inf", "%", "1e20", "10%:30:10%"})
    EXPECT_NE(complaint(SettingKind::budget, text), "") << text;
  for (const char* text : {"0", "1.0001", "-0.5", "inf", "50%"}) EXPECT_NE(complaint(SettingKind::p, text), "") << text;
  for (const char* text : {"0", "-3", "inf", "nan", "50%", "x"})
    EXPECT_NE(complaint(SettingKind::factor, text), "") << text;
  EXPECT_EQ(complaint(SettingKind::delta, "5,-1"), "--delta: '-1' is not a delta: a number of at least 0, or inf");
  EXPECT_EQ(complaint(SettingKind::p, "0"), "--p: '0' is not a p: a number above 0 and at most 1");
  EXPECT_EQ(complaint(SettingKind::budget, "0"),
            "--budget: '0' is not a budget: a whole number of tokens above 0, or a percentage above 0 and at most 100");
  EXPECT_EQ(complaint(SettingKind::factor, "inf"), "--factor: 'inf' is not a factor: a finite number above 0");
}

TEST(Grid, FactorsArePlainNumbers) {
  const Grid grid = parse_grid(SettingKind::factor, "1,0.5,3e2");
  EXPECT_EQ(values(grid), (std::vector<double>{1, 0.5, 300}));
  EXPECT_EQ(grid.labels, (std::vector<std::string>{"1", "0.5", "3e2"}));
}

// The default grid of `attest run` must be one that the user could have typed.
TEST(Grid, EveryKindHasADefaultOfItsOwn) {
  for (const SettingKindInfo& info : kSettingKinds) {
    const Grid grid = default_grid(info.kind);
    EXPECT_EQ(grid.settings.size(), grid.labels.size()) << info.name;
    EXPECT_EQ(grid.settings.size() > 1, info.kind != SettingKind::none) << info.name;
  }
}

TEST(Grid, NoSettingIsThereTwice) {
  EXPECT_EQ(complaint(SettingKind::delta, "5,7,5"), "--delta: '5' is there twice");
  EXPECT_EQ(complaint(SettingKind::delta, "5,5.0"), "--delta: '5' and '5.0' are the same");
  EXPECT_EQ(complaint(SettingKind::delta, "1:5:1,4"), "--delta: '4' is there twice");
  EXPECT_EQ(complaint(SettingKind::budget, "64,50%,50.0%"), "--budget: '50%' and '50.0%' are the same");
  EXPECT_EQ(complaint(SettingKind::budget, "50,50%"), "") << "tokens and per cent";
  EXPECT_EQ(message_of<UsageError>([] { parse_numbers("1,0.5,1e0", "--lambdas"); }),
            "--lambdas: '1' and '1e0' are the same");
}

TEST(Grid, RangesMustEnd) {
  EXPECT_EQ(complaint(SettingKind::delta, "1:5:0"),
            "--delta: the range '1:5:0' is empty: expected a step above 0 and a stop not below the start");
  EXPECT_EQ(complaint(SettingKind::delta, "5:1:1"),
            "--delta: the range '5:1:1' is empty: expected a step above 0 and a stop not below the start");
  EXPECT_EQ(complaint(SettingKind::delta, "0:1000000:0.001"),
            "--delta: '0:1000000:0.001' has 1000000001 settings, expected at most 1000");
  EXPECT_EQ(complaint(SettingKind::delta, "0:1e3:1"), "--delta: '0:1e3:1' has 1001 settings, expected at most 1000");
  EXPECT_EQ(complaint(SettingKind::delta, "1:1e6:1"), "--delta: '1:1e6:1' has 1000000 settings, expected at most 1000");
  EXPECT_EQ(complaint(SettingKind::delta, "1:1e9:1e-9"),
            "--delta: '1:1e9:1e-9' has 9.99999999e+17 settings, expected at most 1000");
  EXPECT_EQ(complaint(SettingKind::delta, "0:1e-15:1e-16"),
            "--delta: '0:1e-15:1e-16' has 16 decimals, expected at most 15");
  EXPECT_EQ(complaint(SettingKind::delta, "0:999:1,0:999:1"), "--delta: more than 1000 settings");
  EXPECT_EQ(complaint(SettingKind::delta, "0:inf:1"),
            "--delta: '0:inf:1' is not a range start:stop:step of finite numbers");
  for (const char* text : {"1:2", "1:2:3:4", "a:b:c", "1:1e:1", "1:1e999:1", "1e-999:2:1", "1:2:", "0x1:2:1"})
    EXPECT_EQ(complaint(SettingKind::delta, text),
              "--delta: '" + std::string(text) + "' is not a range start:stop:step of finite numbers");
}

TEST(Grid, DefaultsHoldThePapersSettings) {
  const auto has = [](SettingKind kind, const char* label) {
    const std::vector<std::string> labels = default_grid(kind).labels;
    return std::find(labels.begin(), labels.end(), label) != labels.end();
  };
  EXPECT_TRUE(has(SettingKind::delta, "5") && has(SettingKind::delta, "7"));
  EXPECT_TRUE(has(SettingKind::budget, "1024") && has(SettingKind::budget, "50%"));
  EXPECT_TRUE(has(SettingKind::p, "0.85"));
  EXPECT_EQ(default_grid(SettingKind::none).labels, (std::vector<std::string>{""}));
}

TEST(Numbers, AreFiniteAndNotNegative) {
  EXPECT_EQ(parse_numbers("0.25,1:3:1", "--lambdas"), (std::vector<double>{0.25, 1, 2, 3}));
  for (const char* text : {"-1", "inf", "a", ""}) EXPECT_THROW(parse_numbers(text, "--lambdas"), UsageError) << text;
}

}  // namespace
}  // namespace attest
