// Cells of two arrays with other orders of layers and settings, place by place.
#include "analysis/statistics/paired_cells.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

namespace attest {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

float cell(int layer, int query, int head, int setting) {
  return static_cast<float>(1000 * layer + 100 * query + 10 * head + setting);
}

/// [Y, N, H, S] whose cells tell where they are; layers and settings by their numbers.
MetricArray array_of(const std::vector<int>& layers, int queries, int heads, const std::vector<int>& settings) {
  MetricArray array{
      .axes = MetricAxes::query_head_setting,
      .shape = {static_cast<std::int64_t>(layers.size()), queries, heads, static_cast<std::int64_t>(settings.size())},
      .values = {}};
  for (const int y : layers)
    for (int n = 0; n < queries; ++n)
      for (int h = 0; h < heads; ++h)
        for (const int s : settings) array.values.push_back(cell(y, n, h, s));
  return array;
}

TEST(PairedCells, FindsTheSamePlaces) {
  // 3 x 7 = 21 cells of a layer are no multiple of a cache line.
  const MetricArray first = array_of({0, 1, 2, 5}, 3, 7, {3, 5, 7}), second = array_of({1, 5}, 3, 7, {9, 7, 3});
  const std::array<IndexPair, 2> layers{{{1, 0}, {3, 1}}}, settings{{{0, 2}, {2, 1}}};
  PairedCells cells;
  pair_cells(first, second, layers, settings, cells);
  ASSERT_EQ(cells.first.size(), 2U * 2 * 3 * 7);
  std::size_t i = 0;
  for (const int s : {3, 7})
    for (const int y : {1, 5})
      for (int n = 0; n < 3; ++n)
        for (int h = 0; h < 7; ++h, ++i) {
          ASSERT_EQ(cells.first[i], cell(y, n, h, s));
          ASSERT_EQ(cells.second[i], cell(y, n, h, s));
        }
  EXPECT_EQ(cells.equal, (std::vector<std::uint8_t>{1, 1}));
}

TEST(PairedCells, ShareNaNAndSeeEveryBit) {
  const MetricArray first = array_of({0}, 1, 2, {0, 1, 2, 3});
  MetricArray second = first, third = first;
  const auto at = [](MetricArray& array, std::size_t head, std::size_t setting) -> float& {
    return array.values[head * 4 + setting];
  };
  at(second, 1, 1) = std::nextafter(at(second, 1, 1), 0.0F);
  at(second, 0, 2) = kNaN;
  at(third, 0, 2) = kNaN;
  at(second, 0, 0) = -0.0F;
  const std::array<IndexPair, 1> layers{};
  const std::array<IndexPair, 4> settings{{{0, 0}, {1, 1}, {2, 2}, {3, 3}}};
  PairedCells cells;
  pair_cells(first, second, layers, settings, cells);
  EXPECT_EQ(cells.equal, (std::vector<std::uint8_t>{0, 0, 0, 1}));
  EXPECT_TRUE(std::isnan(cells.first[4]) && std::isnan(cells.second[4])) << "NaN in the second alone";
  EXPECT_EQ(cells.first[5], cell(0, 0, 1, 2));
  pair_cells(third, second, layers, settings, cells);
  EXPECT_EQ(cells.equal[2], 1) << "NaN in both";
}

TEST(PairedCells, OfMetricsWithoutSettingsOrHeads) {
  MetricArray plain = array_of({0, 1}, 2, 3, {0});
  plain.axes = MetricAxes::query_head;
  plain.shape.pop_back();
  const std::array<IndexPair, 1> last{{{1, 1}}}, only{};
  PairedCells cells;
  pair_cells(plain, plain, last, only, cells);
  EXPECT_EQ(cells.first, (std::vector<float>(plain.values.begin() + 6, plain.values.end())));
  MetricArray layer = array_of({0, 1}, 2, 1, {0, 1});
  layer.axes = MetricAxes::query_setting;
  layer.shape = {2, 2, 2};
  const std::array<IndexPair, 1> second_setting{{{1, 1}}};
  pair_cells(layer, layer, last, second_setting, cells);
  EXPECT_EQ(cells.heads, 1U);
  EXPECT_EQ(cells.first, (std::vector<float>{cell(1, 0, 0, 1), cell(1, 1, 0, 1)}));
}

TEST(PairedCells, DifferencesOfHeadsAreMeansOverQueries) {
  PairedCells cells{.layers = 1, .queries = 2, .heads = 3, .first = {}, .second = {}, .equal = {0, 0}};
  cells.first = {1, 2, kNaN, 3, kNaN, kNaN, /*second setting*/ 0, 0, 0, 0, 0, 0};
  cells.second = {2, 4, kNaN, 6, kNaN, kNaN, /*second setting*/ 1, 2, 3, 4, 5, 6};
  const std::vector<double> means = head_differences(cells);
  ASSERT_EQ(means.size(), 6U);
  EXPECT_EQ(means[0], 2);
  EXPECT_EQ(means[1], 2);
  EXPECT_TRUE(std::isnan(means[2]));
  EXPECT_EQ(std::vector<double>(means.begin() + 3, means.end()), (std::vector<double>{2.5, 3.5, 4.5}));
}

TEST(PairedCells, RetrievalCellsHaveMassOnTheSpan) {
  MetricArray recall = array_of({0}, 1, 3, {0, 1});
  const MetricArray mass{.axes = MetricAxes::query_head, .shape = {1, 1, 3}, .values = {0.5F, 0.25F, kNaN}};
  keep_retrieval_cells(recall, mass);
  EXPECT_EQ(recall.values[0], cell(0, 0, 0, 0));
  EXPECT_EQ(recall.values[1], cell(0, 0, 0, 1));
  for (std::size_t i = 2; i < 6; ++i) EXPECT_TRUE(std::isnan(recall.values[i])) << i;
}

}  // namespace
}  // namespace attest
