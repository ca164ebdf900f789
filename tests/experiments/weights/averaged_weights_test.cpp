// Means over prompts that have weights of different layers, and the order of heads by them.
#include "experiments/weights/averaged_weights.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "dumps/base/error.h"
#include "tests/message_of.h"

namespace attest {
namespace {

/// Two KV heads of two query heads each in layers 0 and 2. Layer 0 is of two prompts, layer 2 of one.
AveragedWeights weights_of(const DumpInfo& model) {
  AveragedWeights weights{.model = &model, .prompts = 2};
  weights.layers[0].add({1, 2, 0, 8});
  weights.layers[0].add({3, 4, 0, 0});
  weights.layers[2].add({6, 0, 5, 4});
  return weights;
}

DumpInfo model_of() {
  DumpInfo model;
  model.shape = {.num_query_heads = 4, .num_kv_heads = 2, .head_dim = 8, .value_dim = 8};
  return model;
}

TEST(AveragedWeights, AreMeansOfThePromptsThatHaveTheLayer) {
  const DumpInfo model = model_of();
  EXPECT_EQ(
      weights_of(model).means(),
      (std::map<HeadPlace, double>{
          {{0, 0}, 2}, {{0, 1}, 3}, {{0, 2}, 0}, {{0, 3}, 4}, {{2, 0}, 6}, {{2, 1}, 0}, {{2, 2}, 5}, {{2, 3}, 4}}));
}

TEST(AveragedWeights, TheHeaviestHeadsComeFirstAndEqualOnesInTheOrderOfLayers) {
  const DumpInfo model = model_of();
  EXPECT_EQ(heaviest_text(weights_of(model)),
            "layer  head  weight  of all\n"
            "    2     0       6   25.0%\n"
            "    2     2       5   20.8%\n"
            "    0     3       4   16.7%\n"
            "    2     3       4   16.7%\n"
            "    0     1       3   12.5%\n"
            "    0     0       2    8.3%\n"
            "    0     2       0    0.0%\n"
            "    2     1       0    0.0%\n");
  AveragedWeights zero{.model = &model, .prompts = 1};
  for (int layer = 0; layer < 3; ++layer) zero.layers[layer].add({0, 0, 0, 0});
  const std::string text = heaviest_text(zero);
  EXPECT_EQ(std::ranges::count(text, '\n'), 9) << "no more than eight heads";
  EXPECT_EQ(text.find('%'), std::string::npos) << "of nothing";
}

TEST(AveragedWeights, KVHeadsAreOrderedByTheSquaresOfTheirQueryHeads) {
  const DumpInfo model = model_of();
  // 4 + 9, 16; 36, 25 + 16: the heaviest query head is not in the heaviest KV head.
  EXPECT_EQ(dense_heads_text(weights_of(model), 1), "2:1");
  EXPECT_EQ(dense_heads_text(weights_of(model), 4), "2:1+2:0+0:1+0:0");
  EXPECT_EQ(message_of<UsageError>([&] { dense_heads_text(weights_of(model), 5); }),
            "--keep-dense is 5, and the dumps have weights of 4 KV heads");
}

}  // namespace
}  // namespace attest
