// Which dumps of one model's name are told apart.
#include "analysis/study/mixed_models.h"

#include <gtest/gtest.h>

namespace attest {
namespace {

StudyDump dump(const std::string& path, const std::string& model, int layers, int query_heads) {
  return {.path = path,
          .model = model,
          .num_layers = layers,
          .shape = {.num_query_heads = query_heads, .num_kv_heads = 2, .head_dim = 64, .value_dim = 64},
          .samples = {}};
}

std::vector<std::string> notices(std::vector<StudyDump> dumps) {
  Study study;
  study.dumps = std::move(dumps);
  return mixed_model_notices(study.dumps);
}

TEST(MixedModels, OneModelOrSeveralNamesNeedNoSentence) {
  EXPECT_TRUE(notices({dump("a.h5", "m", 4, 8), dump("b.h5", "m", 4, 8)}).empty());
  EXPECT_TRUE(notices({dump("a.h5", "m", 4, 8), dump("b.h5", "n", 6, 8)}).empty());
}

TEST(MixedModels, OneSentenceForEachNameOfSeveralShapes) {
  const auto found = notices({dump("a.h5", "m", 4, 8), dump("b.h5", "m", 24, 8), dump("c.h5", "m", 5, 8),
                              dump("d.h5", "n", 4, 8), dump("e.h5", "n", 4, 4)});
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0],
            "the model of a.h5 (4 layers, 8 query heads and 2 KV heads of 64) and of b.h5 (24 layers, 8 query "
            "heads and 2 KV heads of 64) is called 'm', and means are over both");
  EXPECT_NE(found[1].find("d.h5"), std::string::npos);
}

}  // namespace
}  // namespace attest
