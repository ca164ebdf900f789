// What is averaged first, in samples with different numbers of queries and values that are missing.
#include "experiments/study_view/head_means.h"

#include <gtest/gtest.h>

#include "kernels/base/not_defined.h"

namespace attest {
namespace {

/// Two heads of layer 3: one query in the first sample, two in the second.
std::vector<SampleCells> cells() {
  const auto sample = [](const char* name, std::int64_t queries, std::vector<float> values) {
    return SampleCells{.dump = 0,
                       .sample = name,
                       .task = "",
                       .num_tokens = 10,
                       .layers = {3},
                       .num_queries = queries,
                       .num_heads = 2,
                       .values = std::move(values),
                       .range = {}};
  };
  const auto nan = static_cast<float>(kNaN);
  return {sample("a", 1, {1, nan}), sample("b", 2, {4, nan, 10, 8})};
}

double mean_of(const std::map<HeadPlace, Mean>& means, const HeadPlace& place) { return means.at(place).value(); }

TEST(HeadMeans, OverCellsSamplesOrFirstQueries) {
  EXPECT_EQ(mean_of(head_means(cells(), MeanOver::cells), {3, 0}), 5);
  EXPECT_EQ(mean_of(head_means(cells(), MeanOver::samples), {3, 0}), 4) << "(1 + (4 + 10) / 2) / 2";
  EXPECT_EQ(mean_of(head_means(cells(), MeanOver::first_queries), {3, 0}), 2.5);
}

TEST(HeadMeans, WhatIsMissingDoesNotCount) {
  EXPECT_EQ(mean_of(head_means(cells(), MeanOver::cells), {3, 1}), 8);
  EXPECT_EQ(mean_of(head_means(cells(), MeanOver::samples), {3, 1}), 8);
  EXPECT_FALSE(head_means(cells(), MeanOver::first_queries).contains({3, 1})) << "a head without numbers has no mean";
}

TEST(HeadMeans, OfAGroup) {
  const std::map<HeadPlace, Mean> means = head_means(cells(), MeanOver::cells, /*group=*/2);
  ASSERT_EQ(means.size(), 1u);
  EXPECT_EQ(mean_of(means, {3, 0}), 23.0 / 4);
}

}  // namespace
}  // namespace attest
