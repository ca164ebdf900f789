// Learned sinks against one softmax with the sink as one more key of value 0.
#include "kernels/attention/sinks.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/kernels/plain.h"

namespace attest::test {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

KvHead head_of(int group, std::span<const std::int64_t> visible, std::span<const float> sinks) {
  KvHead head;
  head.group = group;
  head.num_queries = static_cast<int>(visible.size());
  head.visible = visible;
  head.sinks = sinks;
  return head;
}

SettingOutputs one_setting(double lse, std::vector<double> output) {
  return {.num_settings = 1, .value_dim = static_cast<int>(output.size()), .output = std::move(output), .lse = {lse}};
}

TEST(Sinks, JoinTheSoftmaxOfTheirHead) {
  const std::vector<float> sinks{1.5f, -700};
  const std::vector<std::int64_t> visible{2, 2};
  // Every row: scores 0 and 2 over the values (1, 0) and (0, 1).
  const Row w = softmax({0, 2});
  const double lse = std::log(1 + std::exp(2));
  std::vector<SettingOutputs> rows(4, one_setting(lse, {w[0], w[1]}));
  add_sinks(head_of(2, visible, sinks), rows);
  for (std::size_t r = 0; r < 4; ++r) {
    const double sink = static_cast<double>(sinks[r % 2]);
    const Row expected = softmax({0, 2, sink});
    EXPECT_NEAR(rows[r].output[0], expected[0], 1e-15);
    EXPECT_NEAR(rows[r].output[1], expected[1], 1e-15);
    EXPECT_NEAR(rows[r].lse[0], std::log(1 + std::exp(2) + std::exp(sink)), 1e-15);
  }
}

TEST(Sinks, WhereNothingIsKeptTheSinkIsAllThereIs) {
  const std::vector<float> sinks{-3};
  const std::vector<std::int64_t> visible{2};
  std::vector<SettingOutputs> rows{one_setting(-kInf, {0, 0})};
  add_sinks(head_of(1, visible, sinks), rows);
  EXPECT_EQ(rows[0].lse[0], -3);
  EXPECT_EQ(rows[0].output, (std::vector<double>{0, 0}));
}

TEST(Sinks, ExtremeLogitsDoNotOverflow) {
  EXPECT_EQ(lse_with_sink(2000, -2000), 2000);
  EXPECT_EQ(lse_with_sink(-2000, 2000), 2000);
  EXPECT_NEAR(lse_with_sink(1000, 1000), 1000 + std::log(2.0), 1e-12);
}

TEST(Sinks, HeadWithoutSinksIsUnchanged) {
  std::vector<SettingOutputs> rows{one_setting(1, {2})};
  add_sinks(head_of(1, std::vector<std::int64_t>{2}, {}), rows);
  EXPECT_EQ(rows[0].lse[0], 1);
  EXPECT_EQ(rows[0].output[0], 2);
}

}  // namespace
}  // namespace attest::test
