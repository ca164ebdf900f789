// Fitted windows and scales: found where an engine has them, and none where nothing else comes nearer.
#include "analysis/audit/fits.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/analysis/audit/plain_engine.h"

namespace attest::test {
namespace {

struct Fitted {
  std::optional<Hypothesis> window, scale;
};

Fitted fits_of(const AttentionLayer& layer, const Engine& engine, std::int64_t query, int head) {
  const EngineOutput out = run_engine(layer, engine);
  const AuditInput input{.layer = layer, .output = out.output, .output_lse = out.lse, .output_type = layer.element_type};
  const RoundingBound bound(layer.element_type, layer.element_type, layer.shape.value_dim, 2);
  return {fitted_window(input, {}, {query, head}, bound, nullptr), fitted_scale(input, {}, {query, head}, nullptr)};
}

TEST(FitsTest, AWindowOfAnyLengthIsFound) {
  for (const std::size_t c : {0, 6, 16}) {  // grouped; a soft-cap; sinks and a window of 200
    const AttentionLayer layer = make_layer(cases()[c]);
    for (const std::int64_t window : {1, 37, 150, 256, 257}) {
      const std::int64_t last = layer.num_queries() - 1;
      const auto found = fits_of(layer, {.window = window}, last, 1).window;
      ASSERT_TRUE(found) << window;
      const std::int64_t position = layer.query_positions.back();
      EXPECT_EQ(found->tokens(position), (TokenRange{position - window + 1, position + 1})) << found->text;
    }
  }
}

TEST(FitsTest, NoWindowIsNoHypothesis) {
  const AttentionLayer layer = make_layer(cases()[0]);
  EXPECT_FALSE(fits_of(layer, {.window = 0}, 1, 0).window);
}

TEST(FitsTest, AScaleIsFound) {
  constexpr double kFinest = 1e-3;  // the last grid has steps of 6e-5
  for (const std::size_t c : {0, 6, 9, 16}) {
    const AttentionLayer layer = make_layer(cases()[c]);
    for (const double factor : {0.02, 0.5, 1.1, 3.0, 20.0}) {
      const auto found =
          fits_of(layer, {.scale = layer.softmax_scale * factor}, layer.num_queries() - 1, 1).scale;
      ASSERT_TRUE(found) << factor;
      EXPECT_NEAR(found->transform.scale / (layer.softmax_scale * factor), 1, kFinest) << cases()[c].name << factor;
    }
    EXPECT_FALSE(fits_of(layer, {}, 1, 0).scale);
  }
}

}  // namespace
}  // namespace attest::test
