// Span tokens that no layer keeps, against sets of tokens.
#include "analysis/statistics/model_span_lost.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/analysis/results/small_study.h"
#include "tests/dumps/scratch_folder.h"

namespace attest::test {
namespace {

constexpr float kUnseen = std::numeric_limits<float>::quiet_NaN();

TEST(ModelSpanLost, JoinsLayersTokenByToken) {
  // Two layers, two queries, two settings, four tokens.
  const MetricArray heads{
      .axes = MetricAxes::query_setting_token,
      .shape = {2, 2, 2, 4},
      .values = {0, 0, 1, 3, /**/ 2, 0, 1, 3, /**/ 0, kUnseen, 0, kUnseen, /**/ kUnseen, kUnseen, kUnseen, kUnseen,
                 //
                 0, 4, 0, 0, /**/ 0, 1, 0, 0, /**/ kUnseen, 2, kUnseen, kUnseen, /**/ kUnseen, kUnseen, kUnseen,
                 kUnseen}};
  const std::vector<std::size_t> both{0, 1}, second{1};
  const ModelSpanLost all = model_span_lost(heads, both);
  EXPECT_EQ(all.queries, 2);
  EXPECT_EQ(all.settings, 2);
  ASSERT_EQ(all.values.size(), 4u);
  EXPECT_EQ(all.at(0, 0), 0.25);            // token 0 alone
  EXPECT_EQ(all.at(0, 1), 0);               // each layer loses some, together they lose none
  EXPECT_DOUBLE_EQ(all.at(1, 0), 2.0 / 3);  // the layers see different tokens: 0 and 2 are lost, 1 is kept
  EXPECT_TRUE(std::isnan(all.at(1, 1)));    // no layer sees any
  const ModelSpanLost one = model_span_lost(heads, second);
  EXPECT_EQ(one.at(0, 0), 0.75);
  EXPECT_EQ(one.at(1, 0), 0);
}

// Layer L keeps token L mod 3 alone; layer 5 is left out.
TEST(ModelSpanLost, OfAResultsFile) {
  const ScratchFolder folder;
  const Study study = small_study();
  {
    ResultsWriter writer(folder.file("r.h5"), study);
    each_unit(study, [&](int d, int s, int layer) {
      LayerResults results = small_results(study, d, s, layer);
      for (SelectorLayerResults& selector : results.selectors)
        for (MetricValues& metric : selector.metrics)
          if (metric.name == "span_token_heads")
            for (std::size_t i = 0; i < metric.values.size(); ++i)
              metric.values[i] = i % 3 == static_cast<std::size_t>(layer) % 3 ? 2 : 0;
      if (layer == 5)
        results = {.dump = d, .sample = results.sample, .layer = layer, .done = false, .scores = {}, .selectors = {}};
      writer.add(results);
    });
    writer.finish("{}");
  }
  const ResultsFile file(folder.file("r.h5"));
  const auto lost = model_span_lost(file, 0, 0, 0);
  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->queries, 2);
  EXPECT_EQ(lost->settings, 3);
  for (const double share : lost->values) EXPECT_DOUBLE_EQ(share, 1.0 / 3);  // layers 0 and 2 keep tokens 0 and 2
  EXPECT_DOUBLE_EQ(model_span_lost(file, 0, 0, 1, {2})->at(1, 0), 2.0 / 3);
  EXPECT_FALSE(model_span_lost(file, 0, 0, 0, {0, 2})) << "no layer is left";
  EXPECT_FALSE(model_span_lost(file, 0, 1, 0)) << "a sample without spans";
}

}  // namespace
}  // namespace attest::test
