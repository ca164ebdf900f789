// FFD's decode with thread blocks dealt by kept shares, against the plain form in double.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "dumps/base/error.h"
#include "kernels/device/multiprocessor.h"
#include "tests/kernels/decode/decode_cases.h"
#include "tests/message_of.h"

namespace attest::test {
namespace {

class FfdDecodeWithADeal : public FfdDecode {};

INSTANTIATE_TEST_SUITE_P(Kinds, FfdDecodeWithADeal, decode_kinds(), testing::PrintToStringParamName());

// A call follows the deal of its shares. One that is not for the launch is not followed: the bits are as without it.
TEST_P(FfdDecodeWithADeal, FollowsADealThatFits) {
  if (GetParam().layout == FfdCacheLayout::row_major) return;
  const DecodeProblem problem = problem_of(shape(1, 66000), {.sub_block = 64}, {65000});
  Gpu gpu;
  CacheOnGpu cache(problem, gpu);
  const DecodeResults without = cache.decode(problem.options);
  const FfdDeal dealt = deal_ffd_decode(cache.cache, std::vector<float>{0.9f, 0.1f}, 65000);
  ASSERT_EQ(dealt.ctas, dealt.of_cta[dealt.ctas - 1].last + 1);
  EXPECT_GT(dealt.of_cta[0].last, 2 * dealt.ctas / 3);
  const DecodeResults with = cache.decode(problem.options, &dealt);
  // Warps that attend other tokens round other weights. In float16 no output of the case changes by that.
  if (GetParam().type == ElementType::bfloat16) {
    EXPECT_NE(with.out, without.out);
  }
  expect_decoded(PlainDecode(problem), with, tolerance_of(problem.shape));
  const std::vector<int> of_three_pairs(3, 2), of_more_ctas(2, kFfdMaxCtas / 2);
  ASSERT_LT(num_multiprocessors(), kFfdMaxCtas);
  const FfdDeal others[] = {FfdDeal(), deal_of(of_three_pairs), deal_of(of_more_ctas),
                            deal_ffd_decode(cache.cache, std::vector<float>(2, 0.5f), 65000)};
  for (const FfdDeal& other : others) EXPECT_EQ(cache.decode(problem.options, &other).out, without.out);
}

TEST_P(FfdDecodeWithADeal, RefusesSharesOfAnotherNumberOrRange) {
  const DecodeProblem problem = problem_of(shape(2), {}, {300, 300});
  Gpu gpu;
  CacheOnGpu cache(problem, gpu);
  const auto refused = [&](const std::vector<float>& shares) {
    return message_of<InputError>([&] { deal_ffd_decode(cache.cache, shares, 300); });
  };
  EXPECT_EQ(refused({0, 0.5f, 1, 0}), "");
  EXPECT_EQ(refused({0, 1}), "FFD decode: expected the kept shares of 4 sequences times KV heads, found 2");
  for (const float share : {-0.1f, 1.01f, std::numeric_limits<float>::quiet_NaN()})
    EXPECT_THAT(refused({0, 0, 0, share}), testing::StartsWith("FFD decode: expected kept shares from 0 to 1, found "));
}

}  // namespace
}  // namespace attest::test
