// The notices about contexts that are too short for a setting, and a check that they are true.
#include "analysis/study/short_contexts.h"

#include <gtest/gtest.h>

#include "tests/analysis/studies.h"
#include "tests/cases.h"

namespace attest::test {
namespace {

std::vector<std::string> notices(const std::string& selector, const std::vector<Setting>& grid,
                                 const std::vector<std::string>& labels, const std::vector<std::int64_t>& positions,
                                 const std::vector<std::int64_t>& windows = {0}) {
  Study study = study_of({study_selector(selector, grid)});
  study.selectors[0].setting_labels = labels;
  StudySample& sample = study.dumps.emplace_back().samples.emplace_back();
  sample.query_positions = positions;
  for (std::size_t layer = 0; layer < windows.size(); ++layer) sample.layers.push_back(static_cast<int>(layer));
  return short_context_notices(study,
                               [&](const UnitKey& unit) { return windows[static_cast<std::size_t>(unit.layer)]; });
}

using Sentences = std::vector<std::string>;

TEST(ShortContexts, ABudgetThatCoversTheContextIsNamed) {
  EXPECT_EQ(
      notices("quest", {{64}, {1024}, {2048}, {25, true}, {100, true}}, {"64", "1024", "2048", "25%", "100%"},
              {303, 799}),
      (Sentences{
          "selector 'quest' keeps every key at budget 1024, 2048 for all 2 queries, which see 800 keys at most"}));
  EXPECT_EQ(
      notices("topk", {{500}, {64}}, {"500", "64"}, {303, 799}),
      (Sentences{"selector 'topk' keeps every key at budget 500 for 1 of 2 queries, which sees 304 keys at most"}));
  EXPECT_TRUE(notices("topk", {{100, true}}, {"100%"}, {299}).empty());
}

TEST(ShortContexts, WhatNoSettingChangesIsSaidOnce) {
  EXPECT_EQ(notices("ffd", {{3}, {5}}, {"3", "5"}, {100, 126, 500}),
            (Sentences{"selector 'ffd' keeps every key, unquantised, for 2 of 3 queries, which see 127 keys at most"}));
  EXPECT_EQ(notices("kivi", {}, {""}, {100}),
            (Sentences{"selector 'kivi' quantises nothing for the one query, which sees 101 keys at most"}));
  EXPECT_EQ(
      notices("twilight", {{0.5}, {0.9}}, {"0.5", "0.9"}, {8191, 9000}),
      (Sentences{"selector 'twilight' has a base set of every key for 1 of 2 queries, which sees 8192 keys at most"}));
}

TEST(ShortContexts, AWindowShortensTheContextOfItsLayers) {
  EXPECT_EQ(notices("quest", {{64}, {1024}}, {"64", "1024"}, {303, 7999}, {128, 0, 128, 9000}),
            (Sentences{"selector 'quest' keeps every key at budget 1024 in 2 of 4 layers for 1 of 2 queries, which "
                       "sees 304 keys at most",
                       "selector 'quest' keeps every key at budget 1024 in 2 of 4 layers for all 2 queries, which see "
                       "128 keys at most"}));
  EXPECT_EQ(notices("quest", {{64}, {1024}}, {"64", "1024"}, {7999}, {128}),
            (Sentences{"selector 'quest' keeps every key at budget 1024 for the one query, which sees 128 keys at "
                       "most"}));
}

TEST(ShortContexts, NothingIsSaidOfLongOnes) {
  for (const std::string& selector : with_all_other_selectors({}))
    EXPECT_TRUE(notices(selector, {{0.9}}, {"0.9"}, {20000}).empty()) << selector;
}

// Wherever a selector reports a short context, it keeps every key.
TEST(ShortContexts, AreTrue) {
  const std::vector<std::string> names = {"ffd",
                                          "quest:dense_layers=0",
                                          "quest:dense_layers=0,preset=kernel",
                                          "streaming_llm",
                                          "topk",
                                          "topk:granularity=block,block=48",
                                          "sparq",
                                          "sparq:count=paper",
                                          "double_sparsity:calibrate=other,dense_layers=0",
                                          "sale",
                                          "kivi:group=16"};
  int said = 0;
  for (const Case& c : cases()) {
    const AttentionLayer layer = make_layer(c);
    for (const std::string& name : names) {
      const StudySelector study = study_selector(name, {{3}, {40}, {128}, {150}, {300}, {600}, {70, true}});
      calibrate_all({study}, make_layer(c, kCalibrationSeed));
      const std::vector<MetricValues> metrics = run_layer({study}, layer).selectors[0].metrics;
      const std::vector<float>&kept = metric(metrics, "keep_ratio").values,
            &error = metric(metrics, "output_error").values;
      for (std::size_t cell = 0; cell < kept.size(); ++cell) {
        const std::size_t i = cell % study.grid.size(),
                          query = cell / study.grid.size() / static_cast<std::size_t>(layer.shape.num_query_heads);
        const std::int64_t visible = c.positions[query] + 1 - layer.first_visible_key(c.positions[query]);
        if (study.selector->short_context(study.selector->resolve(study.grid[i], visible), visible).empty()) continue;
        ++said;
        EXPECT_EQ(kept[cell], 1) << c.name << ", " << name;
        EXPECT_FALSE(error[cell] > 1e-9f) << c.name << ", " << name;
      }
    }
  }
  EXPECT_GT(said, 1000);
}

}  // namespace
}  // namespace attest::test
