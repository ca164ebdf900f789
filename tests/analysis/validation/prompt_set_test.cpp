// Which results make a set of prompts, and which are refused.
#include "analysis/validation/prompt_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dumps/base/error.h"
#include "tests/analysis/validation/made_results.h"
#include "tests/dumps/scratch_folder.h"
#include "tests/message_of.h"

namespace attest {
namespace {

using test::made_prompts;
using test::MadeStudy;
using test::OpenSet;
using test::write_made;
using ::testing::HasSubstr;

MadeStudy study_of(std::size_t prompts, const std::string& path = "d.h5") {
  MadeStudy made;
  made.path = path;
  made.prompts = made_prompts(prompts);
  made.metrics = {{"recall", [](const auto&) { return 1.F; }}};
  return made;
}

class PromptSets : public ::testing::Test {
 protected:
  std::string write(const MadeStudy& made, const std::string& name = "a.h5") {
    write_made(folder_.file(name), made);
    return folder_.file(name);
  }
  std::string refusal(const std::vector<std::string>& paths, const PromptScope& scope = {}) {
    return message_of<UsageError>([&] { OpenSet(paths, scope); });
  }
  ScratchFolder folder_;
};

TEST_F(PromptSets, OfSeveralFilesInAnyOrder) {
  const std::string a = write(study_of(3, "a.h5"), "r1.h5"), b = write(study_of(2, "b.h5"), "r2.h5");
  const OpenSet one({a, b}), other({b, a});
  ASSERT_EQ(one.set.prompts.size(), 5u) << "samples of one name in different dumps are different prompts";
  for (std::size_t p = 0; p < 5; ++p) {
    EXPECT_EQ(one.set.prompts[p].name, other.set.prompts[p].name);
    EXPECT_EQ(one.set.prompts[p].origin, other.set.prompts[p].origin);
  }
  EXPECT_EQ(one.set.layers, (std::vector<int>{0, 1}));
  EXPECT_TRUE(one.set.all_layers);
  EXPECT_EQ(one.set.settings, (std::vector<std::size_t>{2, 1, 0}));
}

TEST_F(PromptSets, Models) {
  MadeStudy other = study_of(2, "b.h5");
  other.model = "n";
  const std::string a = write(study_of(2)), b = write(other, "b.h5");
  EXPECT_THAT(refusal({a, b}), HasSubstr("models 'm', 'n'"));
  EXPECT_THAT(refusal({a, b}, {.model = "x", .selector = {}}), HasSubstr("no prompt is of the model 'x'"));
  EXPECT_EQ(OpenSet({a, b}, {.model = "n", .selector = {}}).set.prompts.size(), 2u);
}

TEST_F(PromptSets, StudiesThatDiffer) {
  const std::string a = write(study_of(2, "a.h5"));
  MadeStudy options = study_of(2, "b.h5"), grid = options, layers = options, heads = options, label = options,
            name = options, few = options;
  options.selector.options_json = R"({"bits":"4"})";
  EXPECT_THAT(refusal({a, write(options, "b.h5")}), HasSubstr("options"));
  options.selector.options_json = R"({"bits":"2","dense_heads":""})";
  EXPECT_EQ(OpenSet({a, write(options, "b.h5")}).set.prompts.size(), 4u) << "defaults, which the other leaves out";
  grid.selector.grid = {{3}, {5}, {9}};
  grid.selector.setting_labels = {"3", "5", "9"};
  EXPECT_THAT(refusal({a, write(grid, "b.h5")}), HasSubstr("3,5,7 in one and 3,5,9"));
  heads.heads = 8;
  EXPECT_THAT(refusal({a, write(heads, "b.h5")}), HasSubstr("4 query and 2 KV heads in one, 8 and 2"));
  label.selector.label = "other";
  EXPECT_THAT(refusal({a, write(label, "b.h5")}), HasSubstr("no selector 'ffd'"));
  name.selector.name = "topdelta";
  EXPECT_THAT(refusal({a, write(name, "b.h5")}), HasSubstr("is ffd in one and topdelta"));
  for (auto& prompt : layers.prompts) prompt.layers = {1};
  EXPECT_THAT(refusal({a, write(layers, "b.h5")}), HasSubstr("in one, 1 in the other; choose common ones by --layers"));
  EXPECT_EQ(OpenSet({a, folder_.file("b.h5")}, {{}, {}, {{1, 1}}}).set.prompts.size(), 4u) << "--layers 1 is common";
}

TEST_F(PromptSets, Layers) {
  MadeStudy made = study_of(2);
  made.num_layers = 6;
  for (auto& prompt : made.prompts) prompt.layers = {0, 2, 5};
  const std::string a = write(made);
  EXPECT_FALSE(OpenSet({a}).set.all_layers);
  const OpenSet some({a}, {{}, {}, {{2, kOpenEnd}}});
  EXPECT_EQ(some.set.layers, (std::vector<int>{2, 5}));
  EXPECT_EQ(some.set.prompts[0].rows, (std::vector<std::size_t>{1, 2}));
  EXPECT_THAT(refusal({a}, {{}, {}, {{1, 5}}}), HasSubstr("layer 1 is not in the results"));
  EXPECT_THAT(refusal({a}, {{}, {}, {{6, kOpenEnd}}}), HasSubstr("layer 6 is not"));
}

TEST_F(PromptSets, PromptsOfOneStudyMayHaveFewerLayers) {
  MadeStudy made = study_of(3);
  made.prompts[1].layers = {1};
  const OpenSet open({write(made)});
  EXPECT_EQ(open.set.layers, made.prompts[0].layers);
  EXPECT_EQ(open.set.in_fewer_layers, 1);
  EXPECT_EQ(open.set.prompts[1].rows.size(), 1u);
}

TEST_F(PromptSets, LayersThatWereLeftOut) {
  MadeStudy made = study_of(3);
  made.left_out = {{1, 1}};
  const std::string a = write(made);
  EXPECT_THAT(message_of<InputError>([&] { OpenSet set({a}); }), HasSubstr("layer 1 of sample 'p001' was left out"));
  EXPECT_EQ(OpenSet({a}, {{}, {}, {{0, 0}}}).set.prompts.size(), 3u);
}

TEST_F(PromptSets, OnePromptTwice) {
  MadeStudy one = study_of(2, "a.h5"), again = study_of(2, "copy/a.h5");
  const std::string a = write(one);
  EXPECT_THAT(refusal({a, a}), HasSubstr("same prompt"));
  EXPECT_THAT(refusal({a, write(one, "same_path.h5")}), HasSubstr("same prompt"));
  // Another name and path of the dump, and the same content: by its hash.
  one.hash = again.hash = "0123456789abcdef";
  EXPECT_THAT(refusal({write(one, "h1.h5"), write(again, "h2.h5")}), HasSubstr("same prompt"));
  again.hash = "fedcba9876543210";
  EXPECT_EQ(OpenSet({folder_.file("h1.h5"), write(again, "h2.h5")}).set.prompts.size(), 4u);
  // Other names and hashes, but the same exact scores: by content.
  const test::MadeMetric scores{"lse", [](const test::CellPlace& at) { return static_cast<float>(test::noise(5, at)); },
                                MetricAxes::query_head, true};
  one.metrics.push_back(scores);
  again.metrics.push_back(scores);
  for (auto& prompt : again.prompts) prompt.name += "_renamed";
  EXPECT_THAT(refusal({write(one, "h1.h5"), write(again, "h2.h5")}), HasSubstr("same prompt"));
  // Of another length they cannot be one prompt.
  for (auto& prompt : again.prompts) prompt.num_tokens = 1001;
  EXPECT_EQ(OpenSet({folder_.file("h1.h5"), write(again, "h2.h5")}).set.prompts.size(), 4u);
}

TEST_F(PromptSets, OnePromptTwiceInOneFile) {
  MadeStudy made = study_of(2);
  made.metrics.push_back({"lse",
                          [](const test::CellPlace& at) {
                            return static_cast<float>(test::noise(5, {0, at.layer, at.query, at.head, 0}));
                          },
                          MetricAxes::query_head, true});
  EXPECT_THAT(refusal({write(made)}), HasSubstr("'p000' and 'p001' are the same prompt"));
}

/// Scores of too few different values say nothing: the prompts of a synthetic dump may have them in common.
TEST_F(PromptSets, EqualScoresOfFewValuesAreAccepted) {
  MadeStudy made = study_of(2);
  made.metrics.push_back(
      {"lse", [](const auto& at) { return static_cast<float>(at.head); }, MetricAxes::query_head, true});
  EXPECT_EQ(OpenSet({write(made)}).set.prompts.size(), 2u);
}

TEST_F(PromptSets, SelectorsAndSettings) {
  const std::string a = write(study_of(1));
  EXPECT_THAT(refusal({a}, {.model = {}, .selector = "quest"}),
              HasSubstr("no single selector labelled or named 'quest'; it has ffd"));
  const OpenSet open({a});
  EXPECT_EQ(find_setting(open.set, "5"), 1u);
  EXPECT_EQ(find_setting(open.set, "5.0"), 1u);
  for (const char* text : {"4", "", "5%", "x", "5x", "nan"})
    EXPECT_THAT(message_of<UsageError>([&] { find_setting(open.set, text); }), HasSubstr("3, 5, 7")) << text;
}

TEST(SafestFirst, ByKind) {
  const auto order = [](SettingKind kind, std::vector<Setting> grid, std::int64_t longest) {
    return safest_first(
        {.label = {}, .name = {}, .options_json = {}, .kind = kind, .grid = std::move(grid), .setting_labels = {}},
        longest);
  };
  using Order = std::vector<std::size_t>;
  EXPECT_EQ(order(SettingKind::delta, {{3}, {9}, {5}}, 100), (Order{1, 2, 0}));
  EXPECT_EQ(order(SettingKind::factor, {{3}, {9}, {5}}, 100), (Order{0, 2, 1}));
  EXPECT_EQ(order(SettingKind::p, {{0.5}, {0.9}}, 100), (Order{1, 0}));
  // 50 % of 1000 tokens are 500.
  EXPECT_EQ(order(SettingKind::budget, {{256}, {1024}, {50, true}}, 1000), (Order{1, 2, 0}));
  EXPECT_EQ(order(SettingKind::budget, {{256}, {1024}, {50, true}}, 4000), (Order{2, 1, 0}));
}

}  // namespace
}  // namespace attest
