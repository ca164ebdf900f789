// Splitting of a layer into tasks, and the span tokens that a query sees.
#include "analysis/layer/kv_head_batches.h"

#include <gtest/gtest.h>

namespace attest {
namespace {

AttentionLayer layer_of(std::vector<std::int64_t> positions, std::int64_t window = 0) {
  AttentionLayer layer;
  layer.shape = {.num_query_heads = 8, .num_kv_heads = 2, .head_dim = 4, .value_dim = 4};
  layer.num_tokens = positions.back() + 1;
  layer.query_positions = std::move(positions);
  layer.sliding_window = window;
  return layer;
}

TEST(KvHeadBatches, RowsAndBytesAreBounded) {
  const AttentionLayer layer = layer_of({9, 19, 29});
  std::vector<KvHeadBatch> batches = kv_head_batches(layer, 8, 1 << 20);  // two queries of four heads
  ASSERT_EQ(batches.size(), 4u);
  EXPECT_EQ(batches[0].visible, (std::vector<std::int64_t>{10, 20}));
  EXPECT_EQ(batches[1].visible, (std::vector<std::int64_t>{30}));
  EXPECT_EQ(batches[1].first_query, 2);
  EXPECT_EQ(batches[2].kv_head, 1);
  EXPECT_EQ(kv_head_batches(layer, 100, 4 * 2 * 20 * 8).size(), 4u);  // two queries with 20 keys fill the matrix
  EXPECT_EQ(kv_head_batches(layer, 1, 1).size(), 6u);                 // at least one query per batch
}

TEST(KvHeadBatches, QueriesOfABatchShareTheirFirstKey) {
  const std::vector<KvHeadBatch> batches = kv_head_batches(layer_of({3, 4, 5, 6}, 5), 100, 1 << 20);
  ASSERT_EQ(batches.size(), 6u);
  EXPECT_EQ(batches[0].visible, (std::vector<std::int64_t>{4, 5}));
  EXPECT_EQ(batches[1].first_key, 1);
  EXPECT_EQ(batches[2].first_key, 2);
  EXPECT_EQ(batches[2].visible, (std::vector<std::int64_t>{5}));
}

TEST(VisibleSpanTokens, AreAUnionSeenFromTheFirstKey) {
  AttentionLayer layer = layer_of({30});
  layer.spans = {{5, 8}, {7, 10}, {28, 40}, {0, 2}};
  EXPECT_EQ(visible_span_tokens(layer, 6, 24), (std::vector<std::uint32_t>{0, 1, 2, 3, 22, 23}));
  EXPECT_TRUE(visible_span_tokens(layer, 12, 10).empty());
}

}  // namespace
}  // namespace attest
