// select_queries keeps the rows of the queries chosen, in all that has one for each query.
#include "dumps/attention_layer.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

namespace attest {
namespace {

/// Four queries of two heads; the values of each array count up from 0.
AttentionLayer layer_of_four_queries() {
  AttentionLayer layer;
  layer.shape = {.num_query_heads = 2, .num_kv_heads = 1, .head_dim = 1, .value_dim = 1};
  layer.element_type = ElementType::bfloat16;
  layer.num_tokens = 3;
  layer.query_positions = {4, 6, 9, 12};
  layer.q.resize(16);
  for (int i = 0; i < 16; ++i) layer.q.data()[i] = static_cast<std::byte>(i);
  layer.output_gradient.resize(8);
  std::iota(layer.output_gradient.begin(), layer.output_gradient.end(), 0.0f);
  for (const EstimateKind kind : {EstimateKind::scores, EstimateKind::keys}) {
    LayerEstimates& estimates = layer.estimates.emplace_back(std::pmr::get_default_resource());
    estimates.source.kind = kind;
    estimates.num_heads = 1;
    estimates.num_entries = 3;
    std::vector<float> values(kind == EstimateKind::scores ? 12 : 3);  // [N, 1, T], [1, T, 1]
    std::iota(values.begin(), values.end(), 0.0f);
    estimates.values.resize(values.size() * sizeof(float));
    std::memcpy(estimates.values.data(), values.data(), estimates.values.size());
  }
  return layer;
}

TEST(LayerBuffer, ASmallerSizeKeepsTheFirstBytes) {
  LayerBuffer buffer;
  buffer.resize(4);
  std::memcpy(buffer.data(), "abcd", 4);
  buffer.resize(2);
  EXPECT_EQ(std::memcmp(buffer.data(), "ab", 2), 0);
}

TEST(SelectQueriesTest, KeepsRowsAndPositions) {
  AttentionLayer layer = layer_of_four_queries();
  select_queries(layer, std::vector<std::size_t>{1, 3});
  EXPECT_EQ(layer.query_positions, (std::vector<std::int64_t>{6, 12}));
  const auto* q = reinterpret_cast<const char*>(layer.q.data());
  EXPECT_EQ(std::string(q, layer.q.size()), "\4\5\6\7\14\15\16\17");
  EXPECT_EQ(layer.output_gradient, (std::vector<float>{2, 3, 6, 7}));
  const LayerEstimates &scores = layer.estimates[0], &keys = layer.estimates[1];
  ASSERT_EQ(scores.values.size(), 2 * 3 * sizeof(float));
  EXPECT_EQ(scores.at(0, 0, 0), 3);
  EXPECT_EQ(scores.at(1, 0, 2), 11);
  EXPECT_EQ(keys.values.size(), 3 * sizeof(float)) << "keys are of all queries";
}

TEST(SelectQueriesTest, NoneOfNoneAreNone) {
  AttentionLayer layer = layer_of_four_queries();
  for (int i = 0; i < 2; ++i) {
    select_queries(layer, {});
    EXPECT_TRUE(layer.query_positions.empty() && layer.q.size() == 0 && layer.output_gradient.empty());
  }
}

TEST(SelectQueriesTest, RefusesIndicesThatDoNotAscendOrAreNone) {
  for (const std::vector<std::size_t>& which : {std::vector<std::size_t>{4}, {1, 0}, {2, 2}}) {
    AttentionLayer layer = layer_of_four_queries();
    EXPECT_THROW(select_queries(layer, which), std::invalid_argument);
    EXPECT_EQ(layer.query_positions.size(), 4u);
  }
}

}  // namespace
}  // namespace attest
