// Formulas of the LibTorch peer on a CPU, beside numbers that were computed by hand.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <vector>

#include "analysis/torch/torch_peer_ops.h"

namespace attest::torch_peer {
namespace {

Tensor row(std::vector<float> values) {
  return at::tensor(values).reshape({1, 1, static_cast<std::int64_t>(values.size())});
}

std::vector<float> numbers(const Tensor& tensor) {
  const Tensor flat = tensor.to(at::kFloat).contiguous();
  return {flat.const_data_ptr<float>(), flat.const_data_ptr<float>() + flat.numel()};
}

void expect_all_nan(const Tensor& tensor) {
  EXPECT_EQ(tensor.numel(), 1);
  EXPECT_TRUE(tensor.isnan().all().item<bool>()) << tensor;
}

using Floats = std::vector<float>;

TEST(TorchPeerOps, EqualNumbersShareTheirAverageRank) {
  EXPECT_EQ(numbers(average_ranks(row({3, 1, 3, 2, 3}))), (Floats{4, 1, 4, 2, 4}));
  EXPECT_EQ(numbers(average_ranks(row({7, 7}))), (Floats{1.5, 1.5}));
  EXPECT_EQ(numbers(average_ranks(row({7}))), (Floats{1}));
  EXPECT_EQ(average_ranks(row({})).sizes(), (std::vector<std::int64_t>{1, 1, 0}));
  const Tensor two = at::cat({row({1, 2}), row({2, 1})}, 1);
  EXPECT_EQ(numbers(average_ranks(two)), (Floats{1, 2, 2, 1})) << "rows by themselves";
}

TEST(TorchPeerOps, CorrelationOfWhatDoesNotVaryIsUndefined) {
  EXPECT_EQ(numbers(correlation(row({1, 2, 3}), row({-1, -2, -3}))), (Floats{-1}));
  expect_all_nan(correlation(row({1, 1}), row({1, 2})));
  expect_all_nan(correlation(row({1}), row({1})));
  expect_all_nan(correlation(row({}), row({})));
}

TEST(TorchPeerOps, TheGapOfOneKeyIsUndefined) {
  EXPECT_EQ(numbers(top_gap(row({1, 5, 2}))), (Floats{3}));
  EXPECT_EQ(numbers(top_gap(row({5, 5}))), (Floats{0}));
  expect_all_nan(top_gap(row({5})));
}

TEST(TorchPeerOps, BlocksAreFullOnes) {
  EXPECT_EQ(numbers(block_max(row({1, 4, 3, 2, 9}), 2)), (Floats{4, 3}));
  EXPECT_EQ(numbers(block_max(row({1, 4}), 2)), (Floats{4}));
  EXPECT_EQ(block_max(row({1}), 2).sizes(), (std::vector<std::int64_t>{1, 1, 0}));
}

TEST(TorchPeerOps, APageBoundsTheScoresOfItsTokens) {
  const Tensor k = at::stack({at::arange(17, at::kFloat), -at::arange(17, at::kFloat)}, -1).unsqueeze(0);  // (t, -t)
  const Tensor q = at::tensor(Floats{1, 2}).reshape({1, 1, 2});
  // Of page 0 the largest of each channel is (15, 0); page 1 has token 16 alone.
  EXPECT_EQ(numbers(page_scores(q, k, 0.5)), (Floats{7.5, -8}));
  EXPECT_EQ(numbers(page_scores(-q, k, 0.5)), (Floats{15, 8})) << "the smallest, (0, -15) and (16, -16)";
  EXPECT_EQ(numbers(page_scores(q, k.slice(1, 0, 1), 1)), (Floats{0}));
}

TEST(TorchPeerOps, TheLastPageMayHaveFewTokens) {
  Floats last_alone(17, 0);
  last_alone[16] = 1;
  EXPECT_EQ(numbers(best_pages(row({1, 2}), 1, 17)), last_alone);
  EXPECT_EQ(numbers(best_pages(row({1, 2}), 9, 17)), Floats(17, 1)) << "no more pages than there are";
}

TEST(TorchPeerOps, TwoBitsOfAGroupAreFourEvenSteps) {
  const Tensor x = row({0, 1, 2, 3, 10, 10, 10, 10});  // one token of eight channels
  EXPECT_EQ(numbers(kivi_groups(x, 4, false)), (Floats{0, 1, 2, 3, 10, 10, 10, 10})) << "a constant group is itself";
  EXPECT_EQ(numbers(kivi_groups(x, 8, false)), (Floats{0, 0, 3.3333333f, 3.3333333f, 10, 10, 10, 10}));
  EXPECT_EQ(numbers(kivi_groups(x.transpose(1, 2), 4, true)), (Floats{0, 1, 2, 3, 10, 10, 10, 10}));
  EXPECT_EQ(numbers(kivi_groups(row({0, 1.5, 3, 0.5}), 4, false)), (Floats{0, 2, 3, 0})) << "half to even";
  EXPECT_EQ(kivi_groups(at::empty({2, 0, 8}), 32, true).sizes(), (std::vector<std::int64_t>{2, 0, 8}));
}

TEST(TorchPeerOps, ThumbnailsAreOfFullBlocks) {
  Tensor k = at::zeros({1, 130, 1});
  k[0][0][0] = 3;  // a step is 2, and codes stand for -3, -1, 1 and 3
  k[0][1][0] = -2.5;
  k[0][129][0] = 100;  // behind the last full block
  const auto [thumbnail, refined] = ffd_keys(k);
  ASSERT_EQ(thumbnail.sizes(), (std::vector<std::int64_t>{1, 128, 1}));
  EXPECT_EQ(numbers(thumbnail.slice(1, 0, 3)), (Floats{3, -3, 1}));
  EXPECT_EQ(numbers(refined), numbers(k.slice(1, 0, 128))) << "residuals that fp8 holds";
  EXPECT_EQ(ffd_keys(k.slice(1, 0, 127)).first.sizes(), (std::vector<std::int64_t>{1, 0, 1}));
}

TEST(TorchPeerOps, FourBitsOfATokenAreSixteenEvenSteps) {
  EXPECT_EQ(numbers(twilight_keys(row({0, 15, 7, 3.4f}))), (Floats{0, 15, 7, 3}));
  EXPECT_EQ(numbers(twilight_keys(row({2, 2}))), (Floats{2, 2}));
}

}  // namespace
}  // namespace attest::torch_peer
