// What hypotheses predict, against plain loops; and the attention of single rows that they stand on.
#include "analysis/audit/hypothesis.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/analysis/audit/plain_engine.h"
#include "tests/near.h"

namespace attest::test {
namespace {

constexpr double kSums = 1e-6;  // of outputs that the plain form stores in float32, relative to the row's norm

std::vector<RowPlace> all_rows(const AttentionLayer& layer) {
  std::vector<RowPlace> rows;
  for (std::int64_t n = 0; n < layer.num_queries(); ++n)
    for (int h = layer.shape.num_query_heads - 1; h >= 0; --h) rows.push_back({n, h});  // in any order
  return rows;
}

void expect_same(const AttentionLayer& layer, const Hypothesis& hypothesis, const Engine& engine) {
  const EngineOutput plain = run_engine(layer, engine);
  const AuditInput input{.layer = layer, .output = plain.output, .output_lse = plain.lse};
  const std::vector<RowPlace> rows = all_rows(layer);
  const std::vector<RowPrediction> predicted = predict(input, hypothesis, rows, nullptr);
  ASSERT_EQ(predicted.size(), rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    double norm = 0, difference = 0;
    const auto observed = input.observed(rows[i].query, rows[i].head);
    for (std::size_t d = 0; d < observed.size(); ++d) {
      norm += static_cast<double>(observed[d]) * observed[d];
      difference += std::pow(observed[d] - predicted[i].output[d], 2);
    }
    EXPECT_LE(std::sqrt(difference), kSums * std::sqrt(norm) + 1e-30) << hypothesis.text;
    EXPECT_TRUE(relatively_near(predicted[i].lse, input.observed_lse(rows[i].query, rows[i].head), kSums))
        << hypothesis.text;
    EXPECT_GE(predicted[i].rounding.size, std::sqrt(norm) * (1 - kSums));
  }
}

class Predictions : public testing::TestWithParam<Case> {};

TEST_P(Predictions, AreThoseOfPlainLoops) {
  if (GetParam().pattern == Pattern::outliers) GTEST_SKIP() << "outputs beyond what the plain form compares";
  const AttentionLayer layer = make_layer(GetParam());
  const EngineOutput none;
  const AuditInput input{.layer = layer,
                         .output = none.output,
                         .output_lse = none.lse,
                         .prompt_length = layer.num_tokens - 1,
                         .rope = R"({"rope_theta": 10000.0})",
                         .other_windows = {7}};
  int compared = 0;
  const auto expect = [&](const std::string& words, Engine engine) {
    for (const Hypothesis& one : structural_hypotheses(input, {})) {
      if (one.text.find(words) == std::string::npos || one.text.find("neighbouring") != std::string::npos) continue;
      expect_same(layer, one, engine);
      ++compared;
      return;
    }
  };
  expect_same(layer, plain_hypothesis(input, {}), {});
  expect("does not see its own key", {.next_keys = -1});
  expect("sees the next key", {.next_keys = 1});
  expect("sees every key of the sample", {.masked = false});
  expect("tokens is missing", {.window = 0});
  expect("that of other layers", {.window = 7});
  expect("sinks are missing", {.sinks = false});
  expect("soft-cap of", {.softcap = false});
  expect("(none)", {.scale = 1});
  expect("h mod Hkv", {.modulo = true});
  expect("values one token later", {.cache_shift = 1});
  expect("each is that of one token earlier", {.value_shift = -1});
  expect("rotated 2 positions less", {.turned = -2});
  EXPECT_GE(compared, 8);
}

INSTANTIATE_TEST_SUITE_P(Cases, Predictions,
                         testing::Values(cases()[0], cases()[1], cases()[2], cases()[6], cases()[8], cases().back()),
                         [](const auto& info) { return info.param.name; });

TEST(HypothesisTest, EveryHypothesisHasTextsOfItsOwn) {
  const AttentionLayer layer = make_layer(cases().back());  // with window, sinks and groups
  const AuditInput input{.layer = layer, .output = {}, .output_lse = {}, .rope = R"({"rope_theta": 10000.0})"};
  std::vector<std::string> texts;
  for (const Hypothesis& one : structural_hypotheses(input, {})) texts.push_back(one.text);
  std::ranges::sort(texts);
  EXPECT_EQ(std::ranges::adjacent_find(texts), texts.end());
}

}  // namespace
}  // namespace attest::test
