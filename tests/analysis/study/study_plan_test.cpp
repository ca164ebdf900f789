// Planning of a study: choice of samples, layers and queries.
#include "analysis/study/study_plan.h"

#include <gtest/gtest.h>

#include "dumps/base/error.h"
#include "tests/message_of.h"

namespace attest {
namespace {

DumpInfo dump(std::vector<SampleInfo> samples) {
  DumpInfo info;
  info.path = "d.h5";
  info.model = "m";
  info.num_layers = 10;
  info.shape = {4, 2, 8, 8};
  info.samples = std::move(samples);
  return info;
}

SampleInfo sample(const std::string& name, std::vector<int> layers, std::vector<std::int64_t> positions) {
  SampleInfo info;
  info.name = name;
  info.task = "task of " + name;
  info.num_tokens = 100;
  info.query_positions = std::move(positions);
  info.layers = std::move(layers);
  return info;
}

class StudyPlanTest : public ::testing::Test {
 protected:
  const DumpInfo first_ = dump({sample("a", {0, 3, 7}, {5, 50, 99}), sample("b", {3}, {99})});
  const DumpInfo second_ = dump({sample("a", {8}, {1, 2})});
  const std::vector<const DumpInfo*> dumps_{&first_, &second_};
};

TEST_F(StudyPlanTest, TakesEverythingUnlessToldOtherwise) {
  Study study;
  const StudyPlan plan = plan_study(dumps_, study);
  const std::vector<UnitKey> units{{0, 0, 0}, {0, 0, 3}, {0, 0, 7}, {0, 1, 3}, {1, 0, 8}};
  EXPECT_EQ(plan.units, units);
  EXPECT_EQ(study.dumps[0].samples[0].task, "task of a");
  EXPECT_EQ(study.dumps[0].samples[0].query_positions, (std::vector<std::int64_t>{5, 50, 99}));
  EXPECT_EQ(plan.places[0][1].index, 1u);
}

TEST_F(StudyPlanTest, LayersAndSamplesNarrowIt) {
  Study study;
  study.choice.layers = {{3, 3}, {8, kOpenEnd}};
  EXPECT_EQ(plan_study(dumps_, study).units, (std::vector<UnitKey>{{0, 0, 3}, {0, 1, 3}, {1, 0, 8}}));
  study.choice = {.samples = {"b"}, .left_out = {}, .layers = {{1, kOpenEnd}}, .queries = {}};
  const StudyPlan plan = plan_study(dumps_, study);
  EXPECT_EQ(plan.units, (std::vector<UnitKey>{{0, 0, 3}})) << "counted among the samples taken";
  EXPECT_EQ(plan.places[0][0].index, 1u) << "counted among the dump's samples";
  EXPECT_TRUE(study.dumps[1].samples.empty());
}

TEST_F(StudyPlanTest, QueriesByCountOrPosition) {
  Study study;
  study.choice.queries = {QueryChoice::Kind::last, 2, {}};
  StudyPlan plan = plan_study(dumps_, study);
  EXPECT_EQ(plan.places[0][0].query_indices, (std::vector<std::size_t>{1, 2}));
  EXPECT_EQ(plan.places[0][1].query_indices, (std::vector<std::size_t>{0})) << "it has one only";
  EXPECT_EQ(
      plan.notices,
      (std::vector<std::string>{"--queries last:2: all queries are taken of the samples that have fewer: 'b' (1)"}));
  study.choice.queries = {QueryChoice::Kind::positions, 0, {99, 5}};
  plan = plan_study(dumps_, study);
  EXPECT_EQ(study.dumps[0].samples[0].query_positions, (std::vector<std::int64_t>{5, 99}));
  EXPECT_TRUE(study.dumps[1].samples.empty());
  EXPECT_EQ(plan.notices,
            (std::vector<std::string>{"samples without any of the chosen layers or queries are left out: 'a'"}));
  study.choice.queries = {QueryChoice::Kind::last, 1, {}};
  EXPECT_TRUE(plan_study(dumps_, study).notices.empty());
}

// plan_study() replaces what an earlier plan left in study.dumps.
TEST_F(StudyPlanTest, FillsTheDumpsAnew) {
  Study study;
  study.dumps.resize(3);
  study.dumps[2].path = "left over";
  plan_study(dumps_, study);
  ASSERT_EQ(study.dumps.size(), 2u);
  EXPECT_EQ(study.dumps[1].path, "d.h5");
  EXPECT_EQ(study.dumps[1].model, "m");
  EXPECT_EQ(study.dumps[1].num_layers, 10);
  EXPECT_EQ(study.dumps[1].shape, second_.shape);
}

TEST_F(StudyPlanTest, SamplesThatSelectorsLearnFromAreLeftOut) {
  Study study;
  study.choice.left_out = {"a"};
  EXPECT_EQ(plan_study(dumps_, study).units, (std::vector<UnitKey>{{0, 0, 3}}));
  EXPECT_EQ(study.dumps[0].samples[0].name, "b");
  study.choice.left_out = {"a", "b"};
  EXPECT_EQ(message_of<UsageError>([&] { plan_study(dumps_, study); }), "no sample is left to study");
}

TEST_F(StudyPlanTest, RefusesWhatIsNowhere) {
  Study study;
  study.choice.samples = {"bb"};
  EXPECT_TRUE(message_of<UsageError>([&] {
                plan_study(dumps_, study);
              }).starts_with("--samples: no dump has a sample 'bb'; nearest: 'b'"));
  study.choice = {};
  study.choice.layers = {{0, 31}, {4, 4}};
  EXPECT_EQ(message_of<UsageError>([&] { plan_study(dumps_, study); }),
            "--layers: no chosen sample has layers 1-2, 4-6, 9-31, 4; there is 0, 3, 7-8");
  const auto complaint = [&](std::vector<std::pair<int, int>> layers) {
    study.choice.layers = std::move(layers);
    return message_of<UsageError>([&] { plan_study(dumps_, study); });
  };
  EXPECT_EQ(complaint({{0, 0}, {4, 4}}), "--layers: no chosen sample has layer 4; there is 0, 3, 7-8");
  EXPECT_EQ(complaint({{7, 9}}), "--layers: no chosen sample has layer 9; there is 0, 3, 7-8");
  EXPECT_EQ(complaint({{20, 2'000'000'000}}),
            "--layers: no chosen sample has layers 20-2000000000; there is 0, 3, 7-8");
  EXPECT_EQ(complaint({{9, kOpenEnd}}), "--layers: no chosen sample has layer 9; there is 0, 3, 7-8");
  EXPECT_EQ(complaint({{8, kOpenEnd}, {7, 8}}), "");
  study.choice = {};
  study.choice.queries = {QueryChoice::Kind::positions, 0, {99, 6}};
  EXPECT_EQ(message_of<UsageError>([&] { plan_study(dumps_, study); }),
            "--queries: no chosen sample has a query at position 6");
}

}  // namespace
}  // namespace attest
