// Ladders against sorted copies and NumPy's values, with ties, NaN and infinities.
#include "analysis/statistics/ladder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "analysis/metrics/metric.h"
#include "analysis/statistics/quantile.h"

namespace attest {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

/// Cells of a long-tailed distribution, many of them equal; about one in nine is NaN.
std::vector<float> random_cells(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> cells;
  for (std::size_t i = 0; i < count; ++i) {
    const float share = static_cast<float>(random() % 1000) / 1000;
    cells.push_back(random() % 9 == 0 ? kNaN : 1 - share * share * share * share);
  }
  return cells;
}

/// The plain second form: every badness as a double, sorted.
Ladder sorted_ladder(const std::vector<float>& cells, Badness badness) {
  const double sign = badness == Badness::value ? 1 : -1;
  std::vector<double> bad;
  for (const float x : cells)
    if (!std::isnan(x)) bad.push_back(badness == Badness::deficit ? 1 - static_cast<double>(x) : sign * x);
  Ladder l{.count = static_cast<std::int64_t>(bad.size())};
  double sum = 0;
  for (const double x : bad) sum += x;
  const double back = badness == Badness::mirrored ? -1 : 1;
  l.mean = back * sum / static_cast<double>(bad.size());
  l.median = back * quantile(bad, 0.5);
  l.p95 = back * quantile(bad, 0.95);
  l.p99 = back * quantile(bad, 0.99);
  l.p999 = back * quantile(bad, 0.999);
  l.worst = back * *std::max_element(bad.begin(), bad.end());
  return l;
}

void expect_equal(const Ladder& l, const Ladder& expected) {
  EXPECT_EQ(l.count, expected.count);
  EXPECT_NEAR(l.mean, expected.mean, 1e-12);  // the order of summation may differ
  EXPECT_DOUBLE_EQ(l.median, expected.median);
  EXPECT_DOUBLE_EQ(l.p95, expected.p95);
  EXPECT_DOUBLE_EQ(l.p99, expected.p99);
  EXPECT_DOUBLE_EQ(l.p999, expected.p999);
  EXPECT_EQ(l.worst, expected.worst);
}

TEST(Ladder, IsThatOfTheSortedCells) {
  for (const std::size_t count : {1, 2, 3, 20, 21, 100, 1001, 20000})
    for (const Badness badness : {Badness::value, Badness::deficit, Badness::mirrored}) {
      SCOPED_TRACE(testing::Message() << count << " cells, badness " << static_cast<int>(badness));
      std::vector<float> cells = random_cells(count, static_cast<unsigned>(count));
      cells.front() = 0.25F;  // at least one cell is not NaN
      expect_equal(ladder(cells, badness), sorted_ladder(cells, badness));
    }
}

TEST(Ladder, HasNumPysValues) {
  // 1 - numpy.array([1, 0.5, 0.75, 0.25, 0.875]): mean, then numpy.quantile at 0.5, 0.95, 0.99, 0.999
  const Ladder deficit = ladder({1, 0.5, 0.75, kNaN, 0.25, 0.875}, Badness::deficit);
  EXPECT_EQ(deficit.count, 5);
  EXPECT_DOUBLE_EQ(deficit.mean, 0.325);
  EXPECT_DOUBLE_EQ(deficit.median, 0.25);
  EXPECT_DOUBLE_EQ(deficit.p95, 0.7);
  EXPECT_DOUBLE_EQ(deficit.p99, 0.74);
  EXPECT_DOUBLE_EQ(deficit.p999, 0.749);
  EXPECT_DOUBLE_EQ(deficit.worst, 0.75);
  // Mirrored: the rungs are quantiles of x at 0.5, 0.05, 0.01, 0.001, in x itself.
  const Ladder mirrored = ladder({1, 0.5, 0.75, kNaN, 0.25, 0.875}, Badness::mirrored);
  EXPECT_DOUBLE_EQ(mirrored.mean, 0.675);
  EXPECT_DOUBLE_EQ(mirrored.p95, 0.3);
  EXPECT_DOUBLE_EQ(mirrored.worst, 0.25);
}

TEST(Ladder, KeepsTheDigitsOfASmallDeficit) {
  // Deficits are taken of the cells, not of an interpolated recall, whose last digit is 1.1e-16.
  const float below_one = std::nextafter(1.0F, 0.0F);
  EXPECT_EQ(ladder({1, below_one}, Badness::deficit).median, std::ldexp(1.0, -25));
}

TEST(Ladder, OfNoCellsIsNotDefined) {
  for (const std::vector<float>& cells : {std::vector<float>{}, std::vector<float>{kNaN, kNaN}}) {
    const Ladder l = ladder(cells, Badness::value);
    EXPECT_EQ(l.count, 0);
    for (const double rung : {l.mean, l.median, l.p95, l.p99, l.p999, l.worst}) EXPECT_TRUE(std::isnan(rung));
  }
}

TEST(Ladder, OfInfinitiesIsNotNaN) {
  const Ladder l = ladder({0, kInf, kInf, 1}, Badness::value);
  EXPECT_EQ(l.median, kInf);
  EXPECT_EQ(l.p99, kInf);
  EXPECT_EQ(l.worst, kInf);
}

TEST(Ladder, PoolsTheCellsOfAllSamples) {
  SampleCells a, b;
  a.values = {0.5F, kNaN};
  b.values = {1};
  const Ladder l = ladder(std::vector<SampleCells>{a, b}, Badness::deficit);
  EXPECT_EQ(l.count, 2);
  EXPECT_DOUBLE_EQ(l.median, 0.25);
}

TEST(Badness, FollowsTheTableOfMetrics) {
  const auto of = [](std::string_view name) { return badness_of(find_metric(name)->info); };
  EXPECT_EQ(of("recall"), Badness::deficit);
  EXPECT_EQ(of("mass_recall"), Badness::deficit);
  EXPECT_EQ(of("lse_error"), Badness::value);
  EXPECT_EQ(of("dropped_gap"), Badness::mirrored);
  EXPECT_EQ(of("entropy"), std::nullopt);
  const auto name_of = [](std::string_view name) { return badness_name(find_metric(name)->info); };
  EXPECT_EQ(name_of("recall"), "recall deficit");
  EXPECT_EQ(name_of("mass_recall"), "dropped mass");
  EXPECT_EQ(name_of("span_keep"), "1 - span_keep");
  EXPECT_EQ(name_of("lse_error"), "lse_error");
}

}  // namespace
}  // namespace attest
