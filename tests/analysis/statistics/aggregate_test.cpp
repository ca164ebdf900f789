// Aggregates against the same definitions written as plain loops over a list of cells.
#include "analysis/statistics/aggregate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <tuple>

namespace attest {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

/// One cell with its position.
struct Cell {
  int dump, layer, head;
  std::string sample;
  double value;
};

/// Two dumps; the first has two samples whose layers overlap in part. About one cell in eight is NaN.
std::vector<SampleCells> random_cells(unsigned seed) {
  std::mt19937 random(seed);
  std::vector<SampleCells> samples{
      {.dump = 0, .sample = "a", .task = "t", .layers = {0, 3}, .num_queries = 3, .num_heads = 4, .values = {}},
      {.dump = 0, .sample = "b", .task = "t", .layers = {3, 5, 6}, .num_queries = 1, .num_heads = 4, .values = {}},
      {.dump = 1, .sample = "a", .task = "u", .layers = {0}, .num_queries = 5, .num_heads = 2, .values = {}}};
  for (SampleCells& s : samples)
    for (std::size_t i = 0; i < s.layers.size() * static_cast<std::size_t>(s.num_queries * s.num_heads); ++i)
      s.values.push_back(random() % 8 == 0 ? kNaN : static_cast<float>(random() % 1000) / 1000);
  return samples;
}

std::vector<Cell> plain(const std::vector<SampleCells>& samples) {
  std::vector<Cell> cells;
  for (const SampleCells& s : samples)
    for (std::size_t y = 0; y < s.layers.size(); ++y)
      for (int q = 0; q < s.num_queries; ++q)
        for (int h = 0; h < s.num_heads; ++h) {
          const std::size_t i = (y * static_cast<std::size_t>(s.num_queries) + static_cast<std::size_t>(q)) *
                                    static_cast<std::size_t>(s.num_heads) +
                                static_cast<std::size_t>(h);
          cells.push_back({s.dump, s.layers[y], h, s.sample, s.values[i]});
        }
  return cells;
}

std::vector<double> pair_cells(const std::vector<Cell>& cells, const Pair& pair) {
  std::vector<double> values;
  for (const Cell& c : cells)
    if (c.dump == pair.dump && c.layer == pair.layer && c.head == pair.head && !std::isnan(c.value))
      values.push_back(c.value);
  return values;
}

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double v : values) sum += v;
  return sum / static_cast<double>(values.size());
}

TEST(Aggregate, MomentsLeaveNaNOut) {
  const std::vector<double> values{2, kNaN, 4, 9};
  const Moments m = describe(values);
  EXPECT_EQ(m.count, 3);
  EXPECT_DOUBLE_EQ(m.mean, 5);
  EXPECT_DOUBLE_EQ(m.std, std::sqrt((9.0 + 1 + 16) / 3));  // population standard deviation
  EXPECT_DOUBLE_EQ(m.min, 2);
  EXPECT_DOUBLE_EQ(m.max, 9);
  const Moments none = describe(std::span<const double>());
  EXPECT_EQ(none.count, 0);
  EXPECT_TRUE(std::isnan(none.mean) && std::isnan(none.std) && std::isnan(none.min) && std::isnan(none.max));
}

TEST(Aggregate, PairsPoolSamplesAndQueries) {
  const std::vector<SampleCells> samples = random_cells(1);
  const std::vector<Cell> cells = plain(samples);
  const std::vector<Pair> means = pair_values(samples), maxima = pair_values(samples, PairValue::max);
  // Both samples of dump 0 have layer 3. Layer 0 of dump 1 is a different pair than layer 0 of dump 0.
  std::set<std::tuple<int, int, int>> places;
  for (const Cell& c : cells)
    if (!std::isnan(c.value)) places.insert({c.dump, c.layer, c.head});
  EXPECT_EQ(means.size(), places.size());
  ASSERT_EQ(maxima.size(), means.size());
  for (std::size_t i = 0; i < means.size(); ++i) {
    const std::vector<double> own = pair_cells(cells, means[i]);
    ASSERT_FALSE(own.empty());
    EXPECT_NEAR(means[i].value, mean_of(own), 1e-12);
    EXPECT_EQ(maxima[i].value, *std::max_element(own.begin(), own.end()));
    if (i > 0) {
      EXPECT_LT(std::tie(means[i - 1].dump, means[i - 1].layer, means[i - 1].head),
                std::tie(means[i].dump, means[i].layer, means[i].head));
    }
  }
}

TEST(Aggregate, PairsWithoutAValueAreAbsent) {
  const std::vector<SampleCells> samples{{.dump = 0,
                                          .sample = "a",
                                          .task = "",
                                          .layers = {1},
                                          .num_queries = 2,
                                          .num_heads = 2,
                                          .values = {kNaN, 1, kNaN, 2}}};
  const std::vector<Pair> pairs = pair_values(samples);
  ASSERT_EQ(pairs.size(), 1u);
  EXPECT_EQ(pairs[0].head, 1);
  EXPECT_DOUBLE_EQ(pairs[0].value, 1.5);
}

TEST(Aggregate, QuantileIsOverAllCells) {
  const std::vector<SampleCells> samples = random_cells(2);
  std::vector<double> values;
  for (const Cell& c : plain(samples))
    if (!std::isnan(c.value)) values.push_back(c.value);
  EXPECT_EQ(quantile(samples, 0.05), quantile(values, 0.05));
}

TEST(Aggregate, IntervalDrawsSamplesOrPairsOfTheOnlyOne) {
  const std::vector<SampleCells> samples = random_cells(3);
  const Interval all = mean_interval(samples);
  EXPECT_EQ(all.kind, ClusterKind::sample);
  EXPECT_EQ(all.clusters, 3u);
  EXPECT_NEAR(all.mean, describe(samples).mean, 1e-12);
  const Interval one = mean_interval(std::span(samples).first(1));
  EXPECT_EQ(one.kind, ClusterKind::pair);
  EXPECT_EQ(one.clusters, 2u * 4);
  EXPECT_LT(one.low, one.mean);
  EXPECT_GT(one.high, one.mean);
}

TEST(Aggregate, SpanRecallTakesTheRetrievalCells) {
  const auto cells = [](std::vector<float> values) {
    return std::vector<SampleCells>{{.dump = 0,
                                     .sample = "a",
                                     .task = "",
                                     .layers = {1, 2},
                                     .num_queries = 1,
                                     .num_heads = 3,
                                     .values = std::move(values)}};
  };
  const std::vector<SampleCells> mass = cells({0.29f, 0.5f, 0.31f, kNaN, 0.9f, 0.1f});
  const std::vector<SampleCells> recall = cells({0.1f, 0.8f, 0.6f, 0.2f, kNaN, 0.3f});
  const SpanRecall span = span_recall(recall, mass);
  EXPECT_EQ(span.cells, 2);
  EXPECT_FLOAT_EQ(static_cast<float>(span.min), 0.6f);
  EXPECT_FLOAT_EQ(static_cast<float>(span.mean), 0.7f);
  const SpanRecall none = span_recall(recall, cells({0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(none.cells, 0);
  EXPECT_TRUE(std::isnan(none.min) && std::isnan(none.mean));
  EXPECT_EQ(span_recall(recall, {}).cells, 0);
}

TEST(Aggregate, SpanRecallMatchesBySampleAndLayer) {
  std::vector<SampleCells> recall = random_cells(4);
  std::vector<SampleCells> mass = random_cells(5);
  std::reverse(mass.begin(), mass.end());
  std::vector<double> expected;
  const std::vector<Cell> recalls = plain(recall), masses = plain({mass[2], mass[1], mass[0]});
  for (std::size_t i = 0; i < recalls.size(); ++i)
    if (masses[i].value >= 0.3f && !std::isnan(recalls[i].value)) expected.push_back(recalls[i].value);
  const SpanRecall span = span_recall(recall, mass);
  ASSERT_GT(expected.size(), 5u);
  EXPECT_EQ(span.cells, static_cast<std::int64_t>(expected.size()));
  EXPECT_NEAR(span.mean, mean_of(expected), 1e-12);
  EXPECT_EQ(span.min, *std::min_element(expected.begin(), expected.end()));
}

TEST(Aggregate, HeadwiseVariationIsOverPairs) {
  const std::vector<SampleCells> keep = random_cells(6), hits = random_cells(7);
  const HeadwiseVariation table = headwise_variation(keep, hits);
  std::vector<double> means, hit_means;
  for (const Pair& p : pair_values(keep)) means.push_back(p.value);
  for (const Pair& p : pair_values(hits)) hit_means.push_back(p.value);
  double squares = 0;
  for (const double m : means) squares += (m - mean_of(means)) * (m - mean_of(means));
  EXPECT_NEAR(table.keep_ratio.mean, mean_of(means), 1e-12);
  EXPECT_NEAR(table.keep_ratio.std, std::sqrt(squares / static_cast<double>(means.size())), 1e-12);
  EXPECT_EQ(table.keep_ratio.min, *std::min_element(means.begin(), means.end()));
  EXPECT_EQ(table.keep_ratio.max, *std::max_element(means.begin(), means.end()));
  EXPECT_NEAR(table.mean_hit_rate, mean_of(hit_means), 1e-12);
}

/// One layer with one query: pair h is head h and has values[h].
std::vector<SampleCells> one_layer(const std::vector<float>& values) {
  return {{.dump = 0,
           .sample = "a",
           .task = "",
           .layers = {0},
           .num_queries = 1,
           .num_heads = static_cast<std::int64_t>(values.size()),
           .values = values}};
}

std::set<int> heads_of(const std::vector<Pair>& pairs) {
  std::set<int> heads;
  for (const Pair& p : pairs) heads.insert(p.head);
  return heads;
}

TEST(Aggregate, FailureCasesFollowTheQuantiles) {
  // With 21 pairs the 10 % quantile is exactly the third smallest value, so three pairs are at or below it.
  std::vector<float> gap, flatness;
  for (int i = 0; i < 21; ++i) {
    gap.push_back(static_cast<float>(i));                   // smallest: heads 0, 1, 2
    flatness.push_back(static_cast<float>((i + 20) % 21));  // smallest: heads 1, 2, 3
  }
  const FailureCases cases = failure_cases(one_layer(gap), one_layer(flatness));
  EXPECT_EQ(heads_of(cases.proxy_error), (std::set<int>{0, 1, 2, 3}));
  EXPECT_EQ(heads_of(cases.high_error), (std::set<int>{1, 2}));
  EXPECT_EQ(cases.regular.size(), 17u);
  EXPECT_EQ(cases.total(), 21u);
  EXPECT_EQ(cases.gap_limit, 2);
  EXPECT_EQ(cases.std_limit, 2);

  std::vector<float> keep(21, 0.5f);
  keep[1] = 1;
  keep[2] = kNaN;
  EXPECT_DOUBLE_EQ(mean_over(cases.high_error, pair_values(one_layer(keep))), 1);
  EXPECT_DOUBLE_EQ(mean_over(cases.proxy_error, pair_values(one_layer(keep))), 2.0 / 3);
}

TEST(Aggregate, FailureCasesNeedBothProxies) {
  const FailureCases cases = failure_cases(one_layer({1, kNaN, 3}), one_layer({2, 2, kNaN}));
  EXPECT_EQ(cases.total(), 1u);
  EXPECT_EQ(heads_of(cases.high_error), (std::set<int>{0}));
}

}  // namespace
}  // namespace attest
