// The arrays of a layer's results: presence, sizes, order and offsets.
#include "analysis/layer/layer_results_layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/analysis/studies.h"

namespace attest {
namespace {

AttentionLayer layer_of(int number) {
  AttentionLayer layer;
  layer.layer = number;
  layer.shape = {.num_query_heads = 6, .num_kv_heads = 2, .head_dim = 64, .value_dim = 64};
  layer.num_tokens = 500;
  layer.query_positions = {100, 499};
  return layer;
}

LayerResultsLayout layout_of(const AttentionLayer& layer) {
  Study study =
      test::study_of({test::study_selector("exact", {}), test::study_selector("ffd:dense_layers=2", {{3}, {5}, {8}}),
                      test::study_selector("streaming_llm", {{64}, {128}})});
  study.lambdas = {1, 2, 3, 4, 5};
  return LayerResultsLayout(study, all_metrics(), layer);
}

const ResultArray* find_array(const std::vector<ResultArray>& arrays, std::string_view name) {
  const auto found = std::ranges::find(arrays, name, [](const ResultArray& array) { return array.info.name; });
  return found == arrays.end() ? nullptr : &*found;
}

std::size_t size_of_array(const std::vector<ResultArray>& arrays, std::string_view name) {
  const ResultArray* found = find_array(arrays, name);
  return found == nullptr ? 0 : found->size;
}

TEST(LayerResultsLayoutTest, SizesFollowAxes) {
  const LayerResultsLayout layout = layout_of(layer_of(2));
  constexpr std::size_t kRows = 2 * 6;
  EXPECT_EQ(size_of_array(layout.scores, "lse"), kRows);
  ASSERT_EQ(layout.selectors.size(), 3u);
  const std::vector<ResultArray>& ffd = layout.selectors[1].arrays;
  EXPECT_EQ(size_of_array(ffd, "recall"), kRows * 3);
  EXPECT_EQ(size_of_array(ffd, "io_ratio"), kRows * 3);
  EXPECT_EQ(size_of_array(ffd, "recall_layer"), 2u * 3);
  EXPECT_EQ(size_of_array(ffd, "spearman"), kRows);
  EXPECT_EQ(size_of_array(ffd, "scan_error_tail"), kRows * 5);
  EXPECT_EQ(size_of_array(layout.selectors[2].arrays, "recall"), kRows * 2);
  EXPECT_EQ(find_array(ffd, "recall")->per_row, 3u);
  EXPECT_EQ(find_array(ffd, "recall_layer")->per_row, 3u);
  EXPECT_EQ(find_array(ffd, "spearman")->per_row, 1u);
  EXPECT_EQ(find_array(ffd, "scan_error_tail")->per_row, 5u);
}

TEST(LayerResultsLayoutTest, RowsOfTheTableComeFirstThenTheSelectorsOwn) {
  const LayerResultsLayout layout = layout_of(layer_of(2));
  const SelectorLayout &exact = layout.selectors[0], &ffd = layout.selectors[1];
  EXPECT_EQ(exact.first_own, exact.arrays.size());
  ASSERT_EQ(ffd.arrays.size(), ffd.first_own + 4);
  for (std::size_t a = 0; a < ffd.arrays.size(); ++a) {
    const ResultArray& array = ffd.arrays[a];
    EXPECT_EQ(array.metric, find_metric(array.info.name)) << array.info.name;
    EXPECT_EQ(array.metric == nullptr, a >= ffd.first_own) << array.info.name;
  }
  EXPECT_EQ(ffd.arrays[ffd.first_own].info.name, "pseudo_max_gap_exact");
  EXPECT_EQ(size_of_array(ffd.arrays, "block_keep_ratio"), 2u * 6 * 3);
}

TEST(LayerResultsLayoutTest, LeavesOutWhatIsNotDefined) {
  AttentionLayer layer = layer_of(2);
  const LayerResultsLayout without = layout_of(layer);
  EXPECT_EQ(find_array(without.scores, "span_mass"), nullptr);
  EXPECT_EQ(find_array(without.selectors[2].arrays, "spearman"), nullptr) << "streaming_llm has no estimate";
  layer.spans = {{10, 20}};
  const LayerResultsLayout with = layout_of(layer);
  EXPECT_NE(find_array(with.scores, "span_mass"), nullptr);
  EXPECT_NE(find_array(with.selectors[2].arrays, "span_keep"), nullptr);
  EXPECT_EQ(without.selectors[2].span_bits.words, 0);
}

TEST(LayerResultsLayoutTest, SpanTokens) {
  AttentionLayer layer = layer_of(2);
  layer.spans = {{90, 110}, {95, 120}, {300, 302}};
  layer.sliding_window = 200;
  const LayerResultsLayout few = layout_of(layer);
  EXPECT_EQ(size_of_array(few.selectors[1].arrays, "span_lost"), 2u * 3);
  EXPECT_EQ(size_of_array(few.selectors[1].arrays, "span_token_heads"), 2u * 3 * 32);
  EXPECT_EQ(find_array(few.selectors[1].arrays, "span_token_heads")->per_row, 3u * 32);
  EXPECT_EQ(few.selectors[1].span_bits.heads, 6);
  EXPECT_EQ(few.selectors[1].span_bits.tokens, 32);
  EXPECT_EQ(few.selectors[1].span_bits.words, 1);
  ASSERT_EQ(few.seen_span_tokens.size(), 2u);
  EXPECT_EQ(few.seen_span_tokens[0].begin, 0);  // the query at 100 sees tokens 0 to 100
  EXPECT_EQ(few.seen_span_tokens[0].end, 11);
  EXPECT_EQ(few.seen_span_tokens[1].begin, 30);  // the query at 499 sees 300 to 499
  EXPECT_EQ(few.seen_span_tokens[1].end, 32);
  layer.num_tokens = 600;
  layer.spans = {{0, kMaxSpanTokens}};
  EXPECT_NE(find_array(layout_of(layer).selectors[1].arrays, "span_token_heads"), nullptr);
  layer.spans = {{0, kMaxSpanTokens}, {540, 541}};
  const LayerResultsLayout many = layout_of(layer);
  EXPECT_NE(find_array(many.selectors[1].arrays, "span_lost"), nullptr);
  EXPECT_EQ(find_array(many.selectors[1].arrays, "span_token_heads"), nullptr) << "bounds the size of results";
  EXPECT_EQ(many.selectors[1].span_bits.heads, 1);
  layer.spans = {{7, 7}};
  EXPECT_EQ(find_array(layout_of(layer).selectors[1].arrays, "span_token_heads"), nullptr) << "no token at all";
}

TEST(LayerResultsLayoutTest, KnowsDenseLayers) {
  EXPECT_TRUE(layout_of(layer_of(1)).selectors[1].dense);
  EXPECT_FALSE(layout_of(layer_of(2)).selectors[1].dense);
}

TEST(LayerResultsLayoutTest, ArraysFollowEachOtherAndBeginUndefined) {
  const LayerResultsLayout layout = layout_of(layer_of(2));
  const LayerResults results = layout.undefined();
  EXPECT_EQ(results.layer, 2);
  std::size_t begin = 0;
  const auto check = [&](const std::vector<ResultArray>& arrays, const std::vector<MetricValues>& metrics) {
    ASSERT_EQ(arrays.size(), metrics.size());
    for (std::size_t m = 0; m < arrays.size(); ++m) {
      EXPECT_EQ(arrays[m].begin, begin) << arrays[m].info.name;
      begin += arrays[m].size;
      EXPECT_EQ(metrics[m].name, arrays[m].info.name);
      EXPECT_EQ(metrics[m].axes, arrays[m].info.axes);
      ASSERT_EQ(metrics[m].values.size(), arrays[m].size);
      for (const float value : metrics[m].values) EXPECT_TRUE(std::isnan(value)) << arrays[m].info.name;
    }
  };
  check(layout.scores, results.scores);
  ASSERT_EQ(results.selectors.size(), layout.selectors.size());
  for (std::size_t s = 0; s < layout.selectors.size(); ++s)
    check(layout.selectors[s].arrays, results.selectors[s].metrics);
  EXPECT_EQ(begin, layout.num_cells);
}

}  // namespace
}  // namespace attest
