// Cutting a layer into rows, batches and key origins, checked row by row.
#include <gtest/gtest.h>

#include "analysis/cuda/cuda_layer_plan.h"
#include "tests/cases.h"

namespace attest::test {
namespace {

AttentionLayer layer_of(int kv_heads, int group, std::vector<std::int64_t> positions, std::int64_t window) {
  AttentionLayer layer;
  layer.shape = {kv_heads * group, kv_heads, 64, 64};
  layer.query_positions = std::move(positions);
  layer.num_tokens = layer.query_positions.back() + 1;
  layer.sliding_window = window;
  return layer;
}

const std::vector<std::int64_t> kPositions{0, 1, 5, 62, 63, 64, 99, 100, 101, 127, 128, 200, 201, 202, 203, 204, 300};

/// Few rows; groups whose size divides the batch of 64 rows and groups whose size does not; windows that start at the
/// first key and later.
std::vector<AttentionLayer> layers() {
  std::vector<AttentionLayer> all;
  for (int group : {1, 4, 7, 16})
    for (std::int64_t window : {0, 64, 100, 1000}) all.push_back(layer_of(3, group, kPositions, window));
  all.push_back(layer_of(1, 1, {0}, 0));
  all.push_back(layer_of(2, 64, {10, 20}, 0));
  return all;
}

/// Compares the row tables of the groups with the layer itself.
void expect_rows(const AttentionLayer& layer, const KvHeadRange& heads, const std::vector<QueryGroup>& groups,
                 const RowTables& tables) {
  const int group = layer.shape.group();
  ASSERT_EQ(tables.visible.size(), groups.size() * static_cast<std::size_t>(group));
  for (std::size_t r = 0; r < tables.visible.size(); ++r) {
    const QueryGroup& own = groups[r / static_cast<std::size_t>(group)];
    const std::int64_t position = layer.query_positions[static_cast<std::size_t>(own.query)];
    const std::int64_t first =
        layer.sliding_window == 0 ? 0 : std::max<std::int64_t>(0, position + 1 - layer.sliding_window);
    const int head = own.kv_head * group + static_cast<int>(r) % group;
    EXPECT_EQ(tables.visible[r], position + 1 - first) << "row " << r;
    EXPECT_EQ(tables.query[r], own.query) << "row " << r;
    EXPECT_EQ(tables.cell[r], own.query * layer.shape.num_query_heads + head) << "row " << r;
    const KeyOrigin& origin = tables.origins.at(static_cast<std::size_t>(tables.origin[r]));
    EXPECT_EQ(origin.kv_head, own.kv_head - heads.first) << "row " << r;
    EXPECT_EQ(origin.first_key, first) << "row " << r;
    if (layer.sinks.empty())
      EXPECT_TRUE(tables.sink.empty());
    else
      EXPECT_EQ(tables.sink.at(r), layer.sinks[static_cast<std::size_t>(head)]) << "row " << r;
  }
}

/// An origin is as long as its longest row. Batches are contiguous and end only where they must.
void expect_batches(const RowTables& tables) {
  int row = 0, longest = 0, maximum = 0;
  std::vector<int> lengths(tables.origins.size(), 0);
  for (std::size_t b = 0; b < tables.batches.size(); ++b) {
    const RowBatch& batch = tables.batches[b];
    ASSERT_EQ(batch.first_row, row) << "batch " << b;
    ASSERT_GT(batch.num_rows, 0);
    ASSERT_LE(batch.num_rows, 64);
    EXPECT_EQ(batch.params, batch.origin);
    int length = 0;
    for (; row < batch.first_row + batch.num_rows; ++row) {
      const auto r = static_cast<std::size_t>(row);
      EXPECT_EQ(tables.origin.at(r), batch.origin) << "row " << row;
      length = std::max(length, tables.visible[r]);
    }
    EXPECT_EQ(batch.length, length) << "batch " << b;
    int& of_origin = lengths[static_cast<std::size_t>(batch.origin)];
    of_origin = std::max(of_origin, length);
    longest = std::max(longest, length);
    maximum = std::max(maximum, batch.num_rows);
    EXPECT_TRUE(b == 0 || batch.origin != tables.batches[b - 1].origin || tables.batches[b - 1].num_rows == 64);
  }
  EXPECT_EQ(row, static_cast<int>(tables.visible.size()));
  EXPECT_EQ(tables.max_length, longest);
  EXPECT_EQ(tables.max_batch_rows, maximum);
  for (std::size_t o = 0; o < lengths.size(); ++o) EXPECT_EQ(tables.origins[o].length, lengths[o]) << "origin " << o;
  for (std::size_t o = 1; o < lengths.size(); ++o)
    EXPECT_FALSE(tables.origins[o].kv_head == tables.origins[o - 1].kv_head &&
                 tables.origins[o].first_key == tables.origins[o - 1].first_key)
        << "origin " << o;
}

TEST(CudaLayerPlan, GroupsStandByKvHeadThenQuery) {
  const AttentionLayer layer = layer_of(5, 2, {3, 4, 9}, 0);
  const std::vector<QueryGroup> groups = query_groups(layer, {2, 2});
  ASSERT_EQ(groups.size(), 6u);
  for (std::size_t i = 0; i < groups.size(); ++i) {
    EXPECT_EQ(groups[i].kv_head, 2 + static_cast<int>(i) / 3);
    EXPECT_EQ(groups[i].query, static_cast<int>(i) % 3);
  }
}

TEST(CudaLayerPlan, HeadsAreCutWhereDenseOnesMeetOthers) {
  const auto cut = [](const KvHeadRange& heads, const std::vector<std::vector<bool>>& dense) {
    std::vector<SelectorLayout> selectors(dense.size());
    for (std::size_t s = 0; s < dense.size(); ++s) selectors[s].dense_heads = dense[s];
    std::vector<std::pair<int, int>> ranges;
    for (const KvHeadRange& range : equally_dense(heads, selectors)) ranges.emplace_back(range.first, range.count);
    return ranges;
  };
  using Ranges = std::vector<std::pair<int, int>>;
  EXPECT_EQ(cut({0, 4}, {}), (Ranges{{0, 4}}));
  EXPECT_EQ(cut({0, 4}, {{false, false, false, false}, {true, true, true, true}}), (Ranges{{0, 4}}));
  EXPECT_EQ(cut({0, 4}, {{false, true, true, false}}), (Ranges{{0, 1}, {1, 2}, {3, 1}}));
  EXPECT_EQ(cut({1, 3}, {{true, false, false, false}, {true, true, true, false}}), (Ranges{{1, 2}, {3, 1}}));
  EXPECT_EQ(cut({2, 1}, {{false, true, false, true}}), (Ranges{{2, 1}}));
}

TEST(CudaLayerPlan, TablesOfAnyRunOfGroups) {
  for (AttentionLayer& layer : layers())
    for (bool sinks : {false, true}) {
      layer.sinks.clear();
      for (int h = 0; sinks && h < layer.shape.num_query_heads; ++h)
        layer.sinks.push_back(0.5f * static_cast<float>(h));
      for (const KvHeadRange& heads : {KvHeadRange{0, layer.shape.num_kv_heads}, KvHeadRange{0, 1},
                                       KvHeadRange{layer.shape.num_kv_heads - 1, 1}}) {
        const std::vector<QueryGroup> all = query_groups(layer, heads);
        for (std::size_t at_once : {all.size(), std::size_t{1}, std::size_t{5}})
          for (std::size_t first = 0; first < all.size(); first += at_once) {
            const auto last = std::min(first + at_once, all.size());
            const std::vector<QueryGroup> run(all.begin() + static_cast<std::ptrdiff_t>(first),
                                              all.begin() + static_cast<std::ptrdiff_t>(last));
            const RowTables tables = row_tables(layer, heads, run);
            expect_rows(layer, heads, run, tables);
            expect_batches(tables);
          }
      }
    }
}

TEST(CudaLayerPlan, LongestRow) {
  EXPECT_EQ(longest_row(layer_of(1, 1, {0}, 0)), 1);
  EXPECT_EQ(longest_row(layer_of(1, 1, {5, 99}, 0)), 100);
  EXPECT_EQ(longest_row(layer_of(1, 1, {5, 99}, 64)), 64);
  EXPECT_EQ(longest_row(layer_of(1, 1, {5, 30}, 64)), 31);
}

// As many rows of 1000 tokens as the elements allow, in whole groups; never none, and never more than a grid takes.
TEST(CudaLayerPlan, GroupsAtOnceFitTheElements) {
  const AttentionLayer layer = layer_of(2, 4, {10, 999}, 0);
  EXPECT_EQ(groups_at_once(layer, 0), 1);
  EXPECT_EQ(groups_at_once(layer, 7999), 1);
  EXPECT_EQ(groups_at_once(layer, 8000), 2);
  EXPECT_EQ(groups_at_once(layer, std::size_t{1} << 40), 32768 / 4);
}

// Spans may overlap, touch, be empty, and come in any order.
TEST(CudaLayerPlan, SpansBecomeDisjoint) {
  Random random(6);
  for (int round = 0; round < 200; ++round) {
    AttentionLayer layer = layer_of(1, 1, {60}, 0);
    std::vector<char> expected(61, 0), found(61, 0);
    for (std::int64_t i = random.below(6); i > 0; --i) {
      const std::int64_t begin = random.below(61), end = begin + random.below(std::min<std::int64_t>(12, 62 - begin));
      layer.spans.push_back({begin, end});
      std::fill(expected.begin() + begin, expected.begin() + end, 1);
    }
    int before = -1;
    for (const int2& span : disjoint_spans(layer)) {
      ASSERT_GT(span.x, before) << "spans overlap or touch";
      ASSERT_LT(span.x, span.y);
      std::fill(found.begin() + span.x, found.begin() + span.y, 1);
      before = span.y;
    }
    ASSERT_EQ(found, expected);
  }
}

}  // namespace
}  // namespace attest::test
