// Cells of a study by layer.
#include "experiments/study_view/model_study.h"

#include <gtest/gtest.h>

namespace attest {
namespace {

TEST(ModelStudy, ALayersCellsAreAllThatTheSampleHasOfIt) {
  const SampleCells cells{.dump = 2,
                          .sample = "s",
                          .task = "t",
                          .num_tokens = 30,
                          .layers = {1, 4},
                          .num_queries = 1,
                          .num_heads = 2,
                          .values = {1, 2, 3, 4},
                          .range = {.min = 0, .max = 5}};
  EXPECT_TRUE(of_layer({&cells, 1}, 2).empty());
  const std::vector<SampleCells> found = of_layer({&cells, 1}, 4);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].layers, std::vector<int>{4});
  EXPECT_EQ(found[0].values, (std::vector<float>{3, 4}));
  EXPECT_EQ(found[0].num_tokens, 30);
  EXPECT_EQ(found[0].range.min, 0) << "by which intervals are bounded";
  EXPECT_EQ(found[0].range.max, 5);
}

}  // namespace
}  // namespace attest
