// Studies with dense_heads: a dense KV head is `exact`, the others are as without the option.
#include "kernels/selectors/dense_heads.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/analysis/studies.h"
#include "tests/cases.h"
#include "tests/near.h"

namespace attest::test {
namespace {

constexpr int kLayer = 5;      // of make_layer()
constexpr int kDenseHead = 1;  // of three

const std::vector<std::string> kSelectors = {"ffd",
                                             "quest:dense_layers=0",
                                             "twilight:dense_layers=0,base_budget=64",
                                             "kivi",
                                             "streaming_llm",
                                             "sparq",
                                             "topk",
                                             "skip_softmax:gqa=per_head,tile=16",
                                             "kv_cache:k=q4_0,v=q4_0"};

std::string with_heads(const std::string& text) {
  return text + (text.find(':') == std::string::npos ? ":" : ",") + "dense_heads=5:1+6:0";
}

std::vector<Setting> grid_of(const std::string& text) {
  switch (parse_selector(text)->setting_kind()) {
    case SettingKind::budget:
      return {{24}, {12, true}};
    case SettingKind::p:
      return {{0.4}, {0.8}};
    case SettingKind::delta:
      return {{0.5}, {2}};
    default:
      return {{}};
  }
}

/// The values of the heads of a KV head, or of all others: [N, Hq, per_row].
std::vector<float> of_heads(const MetricValues& m, const AttentionLayer& layer, bool dense) {
  const auto heads = static_cast<std::size_t>(layer.shape.num_query_heads);
  const std::size_t per_row = m.values.size() / (static_cast<std::size_t>(layer.num_queries()) * heads);
  std::vector<float> values;
  for (std::size_t i = 0; i < m.values.size(); ++i)
    if ((static_cast<int>(i / per_row % heads) / layer.shape.group() == kDenseHead) == dense)
      values.push_back(m.values[i]);
  return values;
}

void expect_same(const std::vector<float>& found, const std::vector<float>& expected, const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (std::size_t i = 0; i < found.size(); ++i)
    ASSERT_TRUE(near_metric(found[i], expected[i], 0)) << what << ", " << i;
}

TEST(DenseHeadsStudy, ADenseHeadIsExactAndTheOthersAreAsBefore) {
  Case c = cases().front();
  c.kv_heads = 3;
  const AttentionLayer layer = make_layer(c);
  ASSERT_EQ(layer.layer, kLayer);
  std::vector<StudySelector> with, without;
  for (const std::string& text : kSelectors) {
    with.push_back(study_selector(with_heads(text), grid_of(text)));
    without.push_back(study_selector(text, grid_of(text)));
  }
  const LayerResults found = run_layer(with, layer), sparse = run_layer(without, layer);
  for (std::size_t s = 0; s < kSelectors.size(); ++s) {
    EXPECT_FALSE(found.selectors[s].dense);
    double dropped = 0;
    for (std::size_t m = 0; m < found.selectors[s].metrics.size(); ++m) {
      const MetricValues &own = found.selectors[s].metrics[m], &other = sparse.selectors[s].metrics[m];
      const std::string what = kSelectors[s] + ", " + own.name;
      if (own.axes == MetricAxes::query_setting) continue;
      expect_same(of_heads(own, layer, false), of_heads(other, layer, false), what);
      const std::vector<float> dense = of_heads(own, layer, true);
      const bool is_share = own.name == "recall" || own.name == "keep_ratio" || own.name == "io_ratio";
      if (is_share || own.name == "output_error" || own.name == "lse_error")
        expect_same(dense, std::vector<float>(dense.size(), is_share ? 1 : 0), what);
      if (own.name == "output_error")
        for (const float x : of_heads(other, layer, true)) dropped += static_cast<double>(x);
    }
    EXPECT_GT(dropped, 0) << kSelectors[s] << " is exact anyway";
  }
}

}  // namespace
}  // namespace attest::test
