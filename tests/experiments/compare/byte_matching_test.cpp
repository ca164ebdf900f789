// Which settings of two selectors are paired by the bytes that they read.
#include <gtest/gtest.h>

#include <functional>

#include "dumps/base/error.h"
#include "experiments/compare/selector_matching.h"
#include "tests/analysis/validation/made_results.h"
#include "tests/dumps/scratch_folder.h"

namespace attest {
namespace {

using Io = std::function<float(const test::CellPlace&)>;
using Pairs = std::vector<std::pair<std::string, std::string>>;

/// io_ratio by the setting alone.
Io by_setting(std::vector<float> io) {
  return [io = std::move(io)](const test::CellPlace& at) { return io[at.setting]; };
}

class MatchBytes : public testing::Test {
 protected:
  /// Matches ffd at delta 3, 5, 7 with quest at budget 64, 128, 256.
  void match(const Io& ffd, const Io& quest, const std::vector<std::string>& settings = {}) {
    made_.metrics = {{"io_ratio", ffd}};
    test::write_made(folder_.file("first.h5"), made_);
    test::MadeStudy other = made_;
    other.selector = {.label = "quest",
                      .name = "quest",
                      .options_json = "{}",
                      .kind = SettingKind::budget,
                      .grid = {{64}, {128}, {256}},
                      .setting_labels = {"64", "128", "256"}};
    other.metrics = {{"io_ratio", quest}};
    other.left_out = left_out_;
    test::write_made(folder_.file("second.h5"), other);
    const ResultsFile first(folder_.file("first.h5")), second(folder_.file("second.h5"));
    std::vector<MatchedSelector> matched = match_selectors(first, second, {"ffd=quest"}, {}, true).pairs;
    match_bytes(first, second, match_prompts(first, second), settings, matched);
    ASSERT_EQ(matched.size(), 1u);
    found_ = matched.front();
  }

  Pairs pairs() const {
    const std::string delta[] = {"3", "5", "7"}, budget[] = {"64", "128", "256"};
    Pairs found;
    for (const IndexPair& setting : found_.settings) found.emplace_back(delta[setting.first], budget[setting.second]);
    return found;
  }

  ScratchFolder folder_;
  test::MadeStudy made_{.prompts = test::made_prompts(2)};
  std::vector<std::pair<std::size_t, int>> left_out_;  ///< of the second study: (prompt, layer)
  MatchedSelector found_;
};

TEST_F(MatchBytes, TheOtherReadsAsMuchAsItCanButNotMore) {
  match(by_setting({0.25F, 0.5F, 0.75F}), by_setting({0.125F, 0.5F, 0.625F}));
  EXPECT_EQ(pairs(), (Pairs{{"3", "64"}, {"5", "128"}, {"7", "256"}})) << "as much is not more";
  EXPECT_EQ(found_.io, (std::vector<std::pair<double, double>>{{0.25, 0.125}, {0.5, 0.5}, {0.75, 0.625}}));
  EXPECT_TRUE(found_.only_first.empty());
}

TEST_F(MatchBytes, OneSettingMayBeThePartnerOfSeveral) {
  match(by_setting({0.25F, 0.5F, 0.75F}), by_setting({0.125F, 0.875F, 1}));
  EXPECT_EQ(pairs(), (Pairs{{"3", "64"}, {"5", "64"}, {"7", "64"}}));
}

TEST_F(MatchBytes, WhatHasNoPartnerIsLeftOut) {
  match(by_setting({0.25F, 0.5F, 0.75F}), by_setting({0.375F, 0.5F, 0.625F}));
  EXPECT_EQ(pairs(), (Pairs{{"5", "128"}, {"7", "256"}}));
  EXPECT_EQ(found_.only_first, std::vector<std::string>{"3"});
}

TEST_F(MatchBytes, NothingIsLeft) {
  EXPECT_THROW(match(by_setting({0.25F, 0.5F, 0.75F}), by_setting({0.875F, 0.9F, 1})), InputError);
}

TEST_F(MatchBytes, OnlySettingsThatWereAskedForArePaired) {
  match(by_setting({0.25F, 0.5F, 0.75F}), by_setting({0.125F, 0.5F, 0.625F}), {"7", "3"});
  EXPECT_EQ(pairs(), (Pairs{{"3", "64"}, {"7", "256"}}));
}

TEST_F(MatchBytes, PromptsWeighTheSame) {
  made_.prompts[1].queries = 4;
  // The mean over prompts is 0.5; over cells, of which the second prompt has more, it is 0.54.
  match([](const test::CellPlace& at) { return at.prompt == 0 ? 0.375F : 0.625F; }, by_setting({0.53F, 0.25F, 0.5F}));
  EXPECT_EQ(pairs(), (Pairs{{"3", "256"}, {"5", "256"}, {"7", "256"}}));
}

TEST_F(MatchBytes, LayersThatOneStudyLeftOutDoNotCount) {
  left_out_ = {{0, 1}, {1, 1}};
  match([](const test::CellPlace& at) { return at.layer == 0 ? 0.25F : 1.0F; }, by_setting({0.125F, 0.5F, 0.625F}));
  EXPECT_EQ(pairs(), (Pairs{{"3", "64"}, {"5", "64"}, {"7", "64"}})) << "with layer 1 it reads 0.625";
}

}  // namespace
}  // namespace attest
