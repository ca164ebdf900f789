// Settings of topdelta and topk that keep what was asked for.
#include "analysis/decode_bench/kept_share.h"

#include <gtest/gtest.h>

#include <cmath>

namespace attest {
namespace {

const KeptSubBlocks kUnits{.pairs = 2, .length = 512 + 32, .sub_block = 128};
const std::vector<double> kMargins{0, 3, 1, 1, 5, 0, 2, 9};

KernelSpec spec(const char* rule, const char* kind, double value) {
  return {
      .method = "ffd", .scan = "2-bit", .rule = rule, .launches = "fused", .setting = {.kind = kind, .value = value}};
}
RuleSetting setting(const KernelSpec& spec) {
  return rule_setting(spec, kUnits, {.margins = kMargins, .pairs = 2, .sub_blocks = 4});
}

TEST(KeptShare, CountsTheTail) {
  EXPECT_EQ(kUnits.sub_blocks(), 4);
  EXPECT_EQ(kUnits.tail(), 32);
  EXPECT_DOUBLE_EQ(kUnits.keep_ratio(8), 1);
  EXPECT_DOUBLE_EQ(kUnits.keep_ratio(0), 32.0 / 544);
  EXPECT_EQ(kUnits.count_for(1), 8);
  EXPECT_EQ(kUnits.count_for((256 + 32) / 544.0), 4);
  EXPECT_EQ(kUnits.count_for(0.01), 0);
}

TEST(KeptShare, ADeltaStaysAsItIs) {
  const RuleSetting own = setting(spec("topdelta", "delta", 5));
  EXPECT_EQ(own.delta, 5);
  EXPECT_TRUE(std::isnan(own.asked_share));
}

TEST(KeptShare, AShareBecomesADelta) {
  EXPECT_EQ(setting(spec("topdelta", "keep", (256 + 32) / 544.0)).delta, 1.5);  // 0 0 1 1 | 2
  EXPECT_TRUE(std::isinf(setting(spec("topdelta", "keep", 1)).delta));
}

TEST(KeptShare, ABudgetIsWhatTopdeltaKeepsOnAverage) {
  const RuleSetting own = setting(spec("topk", "delta", 2.5));  // 3 and 2
  EXPECT_EQ(own.keep, 3);
  EXPECT_DOUBLE_EQ(own.asked_share, kUnits.keep_ratio(5));
  EXPECT_TRUE(std::isnan(own.delta));
  EXPECT_EQ(setting(spec("topk", "keep", 0)).keep, 1);
  EXPECT_EQ(setting(spec("topk", "keep", 1)).keep, 4);
}

}  // namespace
}  // namespace attest
