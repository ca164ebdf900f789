// Fitted windows and scales: found where an engine has them, and none where nothing else comes nearer.
#include "analysis/audit/fits.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>

#include "tests/analysis/audit/plain_engine.h"

namespace attest::test {
namespace {

/// The first heads of the last queries.
std::vector<RowPlace> some_rows(const AttentionLayer& layer) {
  return {{layer.num_queries() - 1, 0}, {layer.num_queries() - 1, 1}, {layer.num_queries() - 2, 0}};
}

struct Fitted {
  std::optional<Hypothesis> window, scale;
};

Fitted fits_of(const AttentionLayer& layer, const Engine& engine) {
  const EngineOutput out = run_engine(layer, engine);
  const AuditInput input{
      .layer = layer, .output = out.output, .output_lse = out.lse, .output_type = layer.element_type};
  const RoundingBound bound(layer.element_type, layer.element_type, layer.shape.value_dim, 2);
  const std::vector<RowPlace> rows = some_rows(layer);
  return {fitted_window(input, {}, rows, bound, nullptr), fitted_scale(input, {}, rows, nullptr)};
}

TEST(FitsTest, AWindowOfAnyLengthIsFound) {
  for (const std::size_t c : {0, 6, 16}) {  // grouped; a soft-cap; sinks and a window of 200
    const AttentionLayer layer = make_layer(cases()[c]);
    for (const std::int64_t window : {1, 37, 150, 256, 257}) {
      const auto found = fits_of(layer, {.window = window}).window;
      ASSERT_TRUE(found) << window;
      const std::int64_t position = layer.query_positions.back();
      EXPECT_EQ(found->tokens(position), (TokenRange{position - window + 1, position + 1})) << found->text;
    }
  }
}

TEST(FitsTest, SaysWhichWindowsAreWithinRounding) {
  const AttentionLayer layer = make_layer(cases()[0]);
  const std::string note = fits_of(layer, {.window = 37}).window->note;
  int minimum = 0, maximum = 0;
  ASSERT_EQ(
      std::sscanf(note.c_str(), "fitted to 3 rows; %d to %d tokens are within rounding of them", &minimum, &maximum), 2)
      << note;
  EXPECT_TRUE(1 < minimum && minimum <= 37 && 37 <= maximum && maximum < 60) << note;
  const auto other = fits_of(layer, {.window = 37, .scale = layer.softmax_scale * 2}).window;
  ASSERT_TRUE(other);
  EXPECT_EQ(other->note, "fitted to 3 rows, of which some are not within rounding");
}

TEST(FitsTest, NoWindowIsNoHypothesis) {
  const AttentionLayer layer = make_layer(cases()[0]);
  EXPECT_FALSE(fits_of(layer, {.window = 0}).window);
}

TEST(FitsTest, AScaleIsFound) {
  constexpr double kFinest = 1e-3;  // the last grid has steps of 6e-5
  for (const std::size_t c : {0, 6, 9, 16}) {
    const AttentionLayer layer = make_layer(cases()[c]);
    for (const double factor : {0.02, 0.5, 1.1, 3.0}) {
      const auto found = fits_of(layer, {.scale = layer.softmax_scale * factor}).scale;
      ASSERT_TRUE(found) << factor;
      EXPECT_NEAR(found->transform.scale / (layer.softmax_scale * factor), 1, kFinest) << cases()[c].name << factor;
    }
    EXPECT_FALSE(fits_of(layer, {}).scale);
  }
}

}  // namespace
}  // namespace attest::test
