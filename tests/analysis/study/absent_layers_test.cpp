// Layers that a selector names and no model has are told.
#include "analysis/study/absent_layers.h"

#include <gtest/gtest.h>

#include "tests/analysis/studies.h"

namespace attest {
namespace {

std::vector<std::string> notices(const std::string& selector, const std::vector<int>& layers_of_dumps) {
  Study study = test::study_of({test::study_selector("cache", test::parse_selector(selector), {})});
  study.dumps.clear();
  for (const int layers : layers_of_dumps)
    study.dumps.push_back({.path = "d.h5", .model = "m", .num_layers = layers, .shape = {}, .samples = {}});
  return absent_layer_notices(study);
}

TEST(AbsentLayers, LayersOfTheModelNeedNoSentence) {
  EXPECT_TRUE(notices("kv_cache:k=fp8_e4m3,skip_layers=0+31", {32}).empty());
  EXPECT_TRUE(notices("kv_cache:k=fp8_e4m3,skip_layers=31", {4, 32}).empty());
  EXPECT_TRUE(notices("kv_cache:k=fp8_e4m3", {4}).empty());
}

TEST(AbsentLayers, OthersAreTold) {
  using Sentences = std::vector<std::string>;
  EXPECT_EQ(notices("kv_cache:k=fp8_e4m3,skip_layers=0+32", {32}),
            (Sentences{"selector 'cache' leaves layer 32 as it is, and the model has 32 layers, counted from 0"}));
  EXPECT_EQ(
      notices("kv_cache:k=fp8_e4m3,skip_layers=99", {1, 4}),
      (Sentences{"selector 'cache' leaves layer 99 as it is, and no model has more than 4 layers, counted from 0"}));
}

}  // namespace
}  // namespace attest
