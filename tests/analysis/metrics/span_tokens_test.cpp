// Span tokens that the heads of a layer keep together: by hand, and what has to hold between the metrics of a study.
// (Every cell against its definition: tests/analysis/layer/cpu_layer_study_test.cpp.)
#include "analysis/metrics/span_tokens.h"

#include <set>

#include "tests/analysis/metrics/metric_rows.h"
#include "tests/analysis/studies.h"
#include "tests/cases.h"

namespace attest::test {
namespace {

TEST(SpanTokens, AreCountedOverHeads) {
  constexpr int kTokens = 5, kHeads = 3;
  // The query sees tokens 1 to 4 of the union, at its keys 0 to 3, whose levels are 2, 0, 1, 3 in head 0.
  HandRow hand;
  hand.span_tokens = {0, 1, 2, 3};
  hand.exact.span_tokens = hand.span_tokens;
  std::vector<std::uint32_t> words(2 * kHeads * kTokens);
  SpanBits bits{.bits = words.data(), .heads = kHeads, .tokens = kTokens, .words = 1};
  EXPECT_EQ(bits.size(2), words.size());
  const std::vector<int> settings{2, 0, 1};  // the places of the ascending settings
  for (int again = 0; again < 2; ++again) {  // a row that is computed again changes nothing
    hand.levels = {2, 0, 1, 3};
    set_span_bits(hand.row, settings, bits, 1, 0, 1);
    hand.levels = {3, 1, 1, 3};
    set_span_bits(hand.row, settings, bits, 1, 2, 1);
  }
  std::vector<float> heads(kTokens);
  const auto expect = [&](int setting, const std::vector<float>& counts, float lost) {
    count_span_heads(bits, 1, setting, {1, 5}, heads);
    EXPECT_TRUE(std::isnan(heads[0]));
    EXPECT_EQ((std::vector<float>(heads.begin() + 1, heads.end())), counts) << setting;
    std::vector<float> share(1), copy(kTokens);
    span_lost(heads, share);
    EXPECT_EQ(share[0], lost) << setting;
    span_token_heads(heads, copy);
    EXPECT_TRUE(same_values(copy, heads));
  };
  expect(2, {0, 1, 0, 0}, 0.75f);
  expect(0, {0, 2, 2, 0}, 0.5f);
  expect(1, {1, 2, 2, 0}, 0.25f);
  std::vector<float> none(1);
  count_span_heads(bits, 0, 0, {2, 2}, heads);
  span_lost(heads, none);
  EXPECT_TRUE(std::isnan(none[0])) << "no token is seen";
}

TEST(SpanTokens, MoreSettingsThanAWordHas) {
  HandRow hand;
  hand.span_tokens = {2};
  hand.exact.span_tokens = hand.span_tokens;
  constexpr int kSettings = 70;
  std::vector<std::uint32_t> words(3);
  const SpanBits bits{.bits = words.data(), .heads = 1, .tokens = 1, .words = 3};
  std::vector<int> settings;
  for (int i = 0; i < kSettings; ++i) settings.push_back(kSettings - 1 - i);
  hand.levels = {0, 0, 40, 0};  // ascending settings 40 to 69 keep it: places 29 to 0
  set_span_bits(hand.row, settings, bits, 0, 5, 0);
  std::vector<float> heads(1);
  for (int place = 0; place < kSettings; ++place) {
    count_span_heads(bits, 0, place, {0, 1}, heads);
    EXPECT_EQ(heads[0], place <= 29 ? 1 : 0) << place;
  }
}

/// Of monotone selectors, of one that is not, and of a dense layer.
std::vector<StudySelector> some_selectors() {
  const std::vector<Setting> budgets{{64}, {3}, {25, true}}, deltas{{1}, {5}, {3}};
  return {study_selector("topk", budgets), study_selector("ffd:block=32,gqa=per_head", deltas),
          study_selector("twilight", {{0.9}, {0.5}}), study_selector("quest:dense_layers=9", budgets),
          study_selector("exact", {})};
}

AttentionLayer layer_with(const std::vector<TokenSpan>& spans, std::int64_t window = 0) {
  AttentionLayer layer = make_layer({"", 2, 3, 64, 64, ElementType::float32, {150, 700, 1199}});
  layer.spans = spans;
  layer.sliding_window = window;
  return layer;
}

// The heads of a layer keep together what each of them keeps: span_keep counts the same tokens by head.
TEST(SpanTokens, AgreeWithWhatEachHeadKeeps) {
  const AttentionLayer layer = layer_with({{100, 130}, {120, 160}, {690, 740}}, 600);
  const LayerResults results = run_layer(some_selectors(), layer, 2);
  for (const SelectorLayerResults& selector : results.selectors) {
    const std::vector<float>&keep = metric(selector.metrics, "span_keep").values,
          &heads = metric(selector.metrics, "span_token_heads").values,
          &lost = metric(selector.metrics, "span_lost").values;
    const std::size_t settings = lost.size() / 3, tokens = heads.size() / lost.size();
    ASSERT_EQ(tokens, 110u);
    for (std::size_t cell = 0; cell < lost.size(); ++cell) {
      double kept = 0, counted = 0, visible = 0, none = 0;
      for (std::size_t h = 0; h < 6; ++h)
        kept += static_cast<double>(keep[(cell / settings * 6 + h) * settings + cell % settings]);
      for (std::size_t t = 0; t < tokens; ++t) {
        const float count = heads[cell * tokens + t];
        if (std::isnan(count)) continue;
        visible += 1;
        counted += static_cast<double>(count);
        none += count == 0;
      }
      EXPECT_NEAR(kept * visible, counted, 1e-3) << cell;
      EXPECT_FLOAT_EQ(lost[cell], static_cast<float>(none / visible)) << cell;
      EXPECT_TRUE(!selector.dense || lost[cell] == 0) << cell;
    }
  }
}

// More tokens than have a value each: what is lost of two halves adds up to what is lost of the whole.
TEST(SpanTokens, LostOfManyTokensIsTheSumOfItsParts) {
  const auto lost_of = [](const std::vector<TokenSpan>& spans) {
    std::vector<std::vector<float>> lost;
    const LayerResults results = run_layer(some_selectors(), layer_with(spans), 2);
    for (const SelectorLayerResults& selector : results.selectors) {
      lost.push_back(metric(selector.metrics, "span_lost").values);
      EXPECT_EQ(std::ranges::count(selector.metrics, "span_token_heads", &MetricValues::name),
                spans.size() > 1 ? 0 : 1);
    }
    return lost;
  };
  const auto whole = lost_of({{0, 140}, {140, 600}}), first = lost_of({{0, 140}}), second = lost_of({{140, 600}});
  std::set<float> values;
  for (std::size_t s = 0; s < whole.size(); ++s)
    for (std::size_t cell = 0; cell < whole[s].size(); ++cell) {
      const double seen = cell < whole[s].size() / 3 ? 11 : 460;  // of the second part; the first query is at 150
      EXPECT_NEAR(static_cast<double>(whole[s][cell]) * (140 + seen),
                  static_cast<double>(first[s][cell]) * 140 + static_cast<double>(second[s][cell]) * seen, 1e-3);
      values.insert(whole[s][cell]);
    }
  EXPECT_GT(values.size(), 5u) << "the case is not trivial";
}

}  // namespace
}  // namespace attest::test
