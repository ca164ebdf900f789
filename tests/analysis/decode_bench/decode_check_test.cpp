// What counts as a wrong result of a decode kernel, and settings that keep a given number of sub-blocks.
#include "analysis/decode_bench/decode_check.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "dumps/base/error.h"
#include "tests/message_of.h"

namespace attest {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
const std::vector<double> kOut{3, 4, 0, 1}, kLse{2, 5};

TEST(DecodeCheck, KeepsTheLargestErrors) {
  KernelCheck check;
  check_output("w", {.out = {3, 4.05f, 0, 1}, .lse = {2, 5.001f}}, kOut, kLse, {.output = 0.02, .lse = 0.01}, check);
  EXPECT_NEAR(check.largest_output_error, 0.01, 1e-6);  // 0.05 of a norm of 5
  EXPECT_NEAR(check.largest_lse_error, 0.001, 1e-6);
  check_output("w", {.out = {3, 4, 0, 1}, .lse = {}}, kOut, kLse, {.output = 0, .lse = 0}, check);
  EXPECT_EQ(check.largest_output_error, 0);
  EXPECT_TRUE(std::isnan(check.largest_lse_error));
}

TEST(DecodeCheck, RefusesWhatIsApartOrNoNumber) {
  const auto refusal = [](const DecodeOutput& found) {
    KernelCheck check;
    return message_of<Error>([&] { check_output("w", found, kOut, kLse, {.output = 0.02, .lse = 0.01}, check); });
  };
  EXPECT_EQ(refusal({.out = {3, 4.5f, 0, 1}, .lse = {2, 5}}),
            "w: an output differs from that of the plain kernel by 0.1, expected at most 0.02; nothing was timed");
  EXPECT_THAT(refusal({.out = {3, 4, 0, NAN}, .lse = {2, 5}}), HasSubstr("an output differs"));
  EXPECT_THAT(refusal({.out = {NAN, 4, 0, 1}, .lse = {2, 5}}), HasSubstr("an output differs"));
  EXPECT_THAT(refusal({.out = {3, 4, 0, 1}, .lse = {2.5f, 5}}), HasSubstr("an LSE differs"));
  EXPECT_THAT(refusal({.out = {3, 4, 0, 1}, .lse = {NAN, 5}}), HasSubstr("an LSE differs"));
  EXPECT_THAT(refusal({.out = {3, 4}, .lse = {2, 5}}), HasSubstr("returned 2 values, expected 4"));
  EXPECT_EQ(refusal({.out = {3, 4, 0, 1}, .lse = {2, 5}}), "");
}

TEST(DecodeCheck, FidelityIsOverRows) {
  const KernelFidelity fidelity = fidelity_of({.out = {6, 8, 1, 1}, .lse = {2.5f, 5}}, kOut, kLse);
  EXPECT_NEAR(fidelity.recall_min, std::sqrt(0.5), 1e-12);
  EXPECT_NEAR(fidelity.recall_mean, (1 + std::sqrt(0.5)) / 2, 1e-12);
  EXPECT_EQ(fidelity.lse_error_mean, 0.25);
  EXPECT_EQ(fidelity.lse_error_max, 0.5);
}

const std::vector<double> kMargins{0, 3, 1, 1, 5, 0, 2, 9};
RankedBlocks blocks() { return {.margins = kMargins, .pairs = 2, .sub_blocks = 4}; }

TEST(DecodeCheck, CountsAndFlags) {
  EXPECT_THAT(counts_within(blocks(), 1), ElementsAre(3, 1));
  EXPECT_THAT(counts_within(blocks(), kInfinity), ElementsAre(4, 4));
  EXPECT_THAT(lowest_margins(blocks(), std::vector<int>{2, 3}), ElementsAre(1, 0, 1, 0, 1, 1, 1, 0));
  EXPECT_THAT(lowest_margins(blocks(), std::vector<int>{0, 9}), ElementsAre(0, 0, 0, 0, 1, 1, 1, 1));
}

TEST(DecodeCheck, ADeltaKeepsWhatItShould) {
  EXPECT_EQ(delta_that_keeps(blocks(), 2), 0.5);  // 0 0 | 1 1 2 3 5 9
  EXPECT_EQ(delta_that_keeps(blocks(), 5), 2.5);
  EXPECT_EQ(delta_that_keeps(blocks(), 8), kInfinity);
  EXPECT_EQ(delta_that_keeps(blocks(), 0), 0);
}

TEST(DecodeCheck, ACountMayBeApartWhereRoundingDecides) {
  const auto checked = [](const std::vector<int>& found, double delta) {
    KernelCheck check;
    check_counts("w", blocks(), found, counts_within(blocks(), delta), delta, check);
    EXPECT_EQ(check.blocks, 8);
    return check.blocks_differing;
  };
  EXPECT_EQ(checked({3, 1}, 1.5), 0);
  EXPECT_EQ(checked({1, 1}, 1.001), 2);  // two margins of 1
  EXPECT_EQ(checked({3, 1}, 0.999), 2);
  EXPECT_EQ(message_of<Error>([&] {
              checked({3, 0}, 1.5);
            }),
            "w: KV head 0 of sequence 1 kept 0 of 4 sub-blocks, expected 1; nothing was timed");
  EXPECT_EQ(checked({4, 4}, kInfinity), 0);
  EXPECT_NE(message_of<Error>([&] { checked({4, 3}, kInfinity); }), "");
  KernelCheck check;
  RankedBlocks heads_of_one = blocks();
  heads_of_one.num_kv_heads = 2;
  EXPECT_EQ(message_of<Error>([&] {
              check_counts("w", heads_of_one, std::vector<int>{3, 0}, std::vector<int>{3, 1}, 1.5, check);
            }),
            "w: KV head 1 of sequence 0 kept 0 of 4 sub-blocks, expected 1; nothing was timed");
  EXPECT_NE(message_of<Error>([&] {
              check_counts("w", blocks(), std::vector<int>{2, 1}, std::vector<int>{2, 2}, NAN, check);
            }),
            "");
}

}  // namespace
}  // namespace attest
