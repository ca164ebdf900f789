// Which measurements are planned, and lengths as typed.
#include "experiments/bench/kernel/kernel_plan.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "dumps/base/error.h"
#include "experiments/bench/kernel/kernel_report.h"
#include "tests/message_of.h"

namespace attest {
namespace {

using testing::ElementsAre;

KernelPlanOptions options() {
  return {.lengths = {4096, 16384, 65536},
          .batches = {1, 8},
          .deltas = {5, 7},
          .keeps = {0.06, 1},
          .experiments = kKernelExperiments};
}

TEST(KernelPlan, LengthsAsTyped) {
  EXPECT_THAT(parse_lengths("4K"), ElementsAre(4096));
  EXPECT_THAT(parse_lengths("5000, 4k"), ElementsAre(5000, 4096));
  EXPECT_THAT(parse_lengths("4K..32K"), ElementsAre(4096, 8192, 16384, 32768));
  EXPECT_THAT(parse_lengths("3..20,1K"), ElementsAre(3, 6, 12, 1024));
  for (const char* text : {"", "x", "0", "-1", "4K,", "8K..4K", "..4K", "4K..", "1.5K", "16385K",
                           "99999999999999999999K", "1..99999999999", "4K..8K..16K", "4 K"})
    EXPECT_THAT(message_of<UsageError>([&] { parse_lengths(text); }), testing::StartsWith("--lengths: '")) << text;
  EXPECT_EQ(message_of<UsageError>([] { parse_lengths("4K,4096"); }), "--lengths: 4096 tokens are there twice");
  EXPECT_EQ(message_of<UsageError>([] { parse_lengths("4K,4096", "--context"); }),
            "--context: 4096 tokens are there twice");
}

TEST(KernelPlan, LatencyEverywhereTheOthersAtOneLength) {
  for (const PlannedKernel& each : planned_kernels(options(), 4096, 1))
    EXPECT_THAT(each.experiments, ElementsAre("kernel_latency"));
  EXPECT_EQ(planned_kernels(options(), 16384, 8).size(), planned_kernels(options(), 4096, 1).size());
  EXPECT_GT(planned_kernels(options(), 16384, 1).size(), planned_kernels(options(), 4096, 1).size());
  KernelPlanOptions other = options();
  other.lengths = {4096, 8192};
  EXPECT_EQ(focus_length(other), 8192);
  other.experiments = {"ablation"};
  EXPECT_TRUE(planned_kernels(other, 4096, 1).empty());
  EXPECT_EQ(planned_kernels(other, 8192, 1).size(), 6u);
}

TEST(KernelPlan, WhatSeveralExperimentsNeedIsMeasuredOnce) {
  const std::vector<PlannedKernel> plan = planned_kernels(options(), 16384, 1);
  for (std::size_t i = 0; i < plan.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) EXPECT_FALSE(plan[i].spec == plan[j].spec);
  const KernelSpec fused{.method = "ffd",
                         .scan = "2-bit",
                         .rule = "topdelta",
                         .launches = "fused",
                         .setting = {.kind = "delta", .value = 5}};
  const auto found = std::ranges::find(plan, fused, &PlannedKernel::spec);
  ASSERT_NE(found, plan.end());
  EXPECT_THAT(found->experiments, ElementsAre("kernel_latency", "quant_depth", "ablation"));
  EXPECT_EQ(std::ranges::count_if(plan, [](const PlannedKernel& each) { return each.dense; }), 2);
}

TEST(KernelPlan, SharesBelowOneAreMeasuredWithADealToo) {
  std::vector<double> dealt;
  for (const PlannedKernel& each : planned_kernels(options(), 4096, 8))
    if (each.spec.launches == "dealt") {
      EXPECT_EQ(each.spec.setting.kind, "keep");
      dealt.push_back(each.spec.setting.value);
    }
  EXPECT_THAT(dealt, ElementsAre(0.06));
}

TEST(KernelPlan, MethodsAndExperimentsAreThoseOfTheFormat) {
  for (const PlannedKernel& each : planned_kernels(options(), 16384, 1)) {
    EXPECT_THAT(kKernelMethods, testing::Contains(each.spec.method));
    for (const std::string& experiment : each.experiments)
      EXPECT_THAT(kKernelExperiments, testing::Contains(experiment));
  }
}

TEST(KernelPlan, DepthsHaveTheReconstructionFloor) {
  KernelPlanOptions own = options();
  own.keeps = {};
  own.experiments = {"quant_depth"};
  std::vector<std::string> scans;
  for (const PlannedKernel& each : planned_kernels(own, 16384, 1))
    if (each.spec.setting == KernelSetting{.kind = "keep", .value = 1}) scans.push_back(each.spec.scan);
  EXPECT_THAT(scans, ElementsAre("2-bit", "4-bit", "8-bit"));
}

}  // namespace
}  // namespace attest
