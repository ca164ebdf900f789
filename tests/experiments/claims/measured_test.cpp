// The rules by which claims are decided, on planted numbers of samples.
#include "experiments/claims/measured.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace attest {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

SampleCells cells_of(const std::string& sample, std::vector<float> values) {
  SampleCells cells;
  cells.sample = sample;
  cells.layers = {0};
  cells.num_queries = std::ssize(values);
  cells.num_heads = 1;
  cells.values = std::move(values);
  cells.range = {.min = -10, .max = 10};
  return cells;
}

/// A sample for each number.
SampleNumbers numbers_of(const std::vector<double>& values) {
  SampleNumbers numbers;
  for (const double value : values) numbers[{static_cast<int>(numbers.size()), "s"}] = value;
  return numbers;
}

std::string plain(double value) { return std::to_string(std::lround(value)); }

TEST(Measured, EachSampleCountsOnce) {
  const std::vector<SampleCells> cells{cells_of("a", {1, 3, kNan}), cells_of("b", {8}), cells_of("c", {kNan})};
  const SampleNumbers means = sample_means(cells);
  EXPECT_EQ(means, (SampleNumbers{{{0, "a"}, 2}, {{0, "b"}, 8}})) << "c has no cell";
  const Measured of_samples = measure(means), of_cells = measure(cells);
  EXPECT_DOUBLE_EQ(of_samples.interval.mean, 5);
  EXPECT_DOUBLE_EQ(of_cells.interval.mean, 4) << "of all cells";
  EXPECT_EQ(of_samples.text(plain), "5 (2 samples, from 2 to 8)");
  EXPECT_EQ(of_cells.text(plain), "4 (2 samples, from 2 to 8)");
  EXPECT_EQ(measure(numbers_of({3})).text(plain), "3 (one sample: no interval)");
  EXPECT_FALSE(measure(SampleNumbers()).exists());
  EXPECT_EQ(differences(means, {{{0, "b"}, 5}, {{0, "d"}, 1}}), (SampleNumbers{{{0, "b"}, 3}})) << "those of both";
}

TEST(Measured, FewerThanFiveSamplesTellNothing) {
  EXPECT_EQ(judged(measure(numbers_of({4, 5, 6, 5})).interval, 1), Verdict::cannot_tell);
  const Interval five = measure(numbers_of({4, 5, 6, 5, 5})).interval;
  EXPECT_EQ(judged(five, 1), Verdict::holds);
  EXPECT_EQ(judged(five, 9), Verdict::does_not_hold);
  EXPECT_EQ(judged(five, 5), Verdict::cannot_tell) << "a bound within the interval";
  EXPECT_EQ(judged(five, 1, 9), Verdict::holds);
  EXPECT_EQ(judged(five, 1, 2), Verdict::does_not_hold);
  EXPECT_EQ(judged_universal(false, 4), Verdict::cannot_tell);
  EXPECT_EQ(judged_universal(false, 5), Verdict::holds);
  EXPECT_EQ(judged_universal(true, 1), Verdict::does_not_hold);
}

TEST(Measured, PartsMustAllHoldAndOneRefutes) {
  const SampleNumbers above = numbers_of({4, 5, 6, 5, 5}), below = numbers_of({-4, -5, -6, -5, -5}),
                      around = numbers_of({-4, 5, -6, 5, 1});
  const auto verdict = [](const std::vector<SampleNumbers>& parts) { return judged_parts(parts).verdict; };
  EXPECT_EQ(verdict({above, above}), Verdict::holds);
  EXPECT_EQ(verdict({above, around}), Verdict::cannot_tell);
  EXPECT_EQ(verdict({above, around, below}), Verdict::does_not_hold);
  EXPECT_EQ(verdict({}), Verdict::cannot_tell);
  const std::vector parts{above, around, below};
  EXPECT_EQ(judged_parts(parts).text(), "over the samples clearly so at 1 of 3, clearly not at 1");
}

TEST(Measured, PartsShareTheLevelAtWhichOneRefutes) {
  const SampleNumbers above = numbers_of({4, 5, 6, 5, 5}), slightly = numbers_of({-3, -1, -2, -4, -0.5});
  const Interval alone = measure(slightly).interval;
  ASSERT_EQ(judged(alone, 0), Verdict::does_not_hold) << alone.low << " to " << alone.high;
  std::vector<SampleNumbers> parts{slightly};
  EXPECT_EQ(judged_parts(parts).verdict, Verdict::does_not_hold);
  parts.resize(20, above);
  const JudgedParts judged = judged_parts(parts);
  EXPECT_EQ(judged.refuted, 0u) << "at 0.25 % it is not clear";
  EXPECT_EQ(judged.hold, 19u);
  EXPECT_EQ(judged.verdict, Verdict::cannot_tell);
}

}  // namespace
}  // namespace attest
