#include "analysis/run/manifest.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

namespace attest {
namespace {

using nlohmann::json;

StudyPlan plan() {
  StudyPlan plan;
  plan.dumps = {{"a.h5", "m", 4, {2, 1, 8, 8}, {{"s", "t", 10, {0, 1}, {9}, false}}}};
  return plan;
}

StudyConfiguration configuration() {
  return {.program = "1.2.3",
          .git_commit = "abc",
          .device = "cpu",
          .precision = "float64",
          .selectors =
              {{"ffd", "ffd", "delta", R"({"bits":"2"})", {5, std::numeric_limits<double>::infinity()}, {"5", "inf"}}},
          .salient_delta = 5,
          .lambdas = {0.5},
          .skip_bad_layers = false,
          .inputs = {{"a.h5", 100, 42}}};
}

TEST(Manifest, SaysWhatMadeTheResults) {
  const StudyConfiguration study = configuration();
  const json manifest = json::parse(manifest_json({.command_line = {"attest", "run"},
                                                   .configuration = configuration_json(study, plan()),
                                                   .device = "CPU, 2 threads",
                                                   .started = "then",
                                                   .ended = "now",
                                                   .input_hashes = {"00ff"},
                                                   .left_out = {{0, "s", 1}}},
                                                  study));
  EXPECT_EQ(manifest["command_line"], json({"attest", "run"}));
  EXPECT_EQ(manifest["program"]["version"], "1.2.3");
  EXPECT_EQ(manifest["program"]["git_commit"], "abc");
  EXPECT_EQ(manifest["device"], "CPU, 2 threads");
  EXPECT_EQ(manifest["precision"], "float64");
  EXPECT_EQ(manifest["start_time"], "then");
  EXPECT_EQ(manifest["end_time"], "now");
  EXPECT_EQ(manifest["inputs"][0], json({{"path", "a.h5"}, {"bytes", 100}, {"xxh64", "00ff"}}));
  EXPECT_EQ(manifest["layers_left_out"][0], json({{"dump", 0}, {"sample", "s"}, {"layer", 1}}));
  EXPECT_EQ(manifest["configuration"]["selectors"][0]["settings"], json({5.0, "inf"}));
  EXPECT_EQ(manifest["configuration"]["selectors"][0]["options"]["bits"], "2");
}

TEST(Manifest, WhatDecidesTheDataMakesAnotherStudy) {
  const std::string study = configuration_json(configuration(), plan());
  const auto differs = [&](auto change) {
    StudyConfiguration other = configuration();
    change(other);
    return configuration_json(other, plan()) != study;
  };
  EXPECT_TRUE(differs([](StudyConfiguration& c) { c.selectors[0].settings[0] = 6; }));
  EXPECT_TRUE(differs([](StudyConfiguration& c) { c.selectors[0].options_json = R"({"bits":"4"})"; }));
  EXPECT_TRUE(differs([](StudyConfiguration& c) { c.salient_delta = 4; }));
  EXPECT_TRUE(differs([](StudyConfiguration& c) { c.lambdas = {1}; }));
  EXPECT_TRUE(differs([](StudyConfiguration& c) { c.skip_bad_layers = true; }));
  EXPECT_TRUE(differs([](StudyConfiguration& c) { c.git_commit = "def"; }));
  EXPECT_TRUE(differs([](StudyConfiguration& c) { c.device = "cuda"; }));
  EXPECT_TRUE(differs([](StudyConfiguration& c) { c.inputs[0].bytes = 101; }));
  EXPECT_FALSE(differs([](StudyConfiguration& c) { c.inputs[0].modified_ns = 43; }))
      << "its content decides, not its time";
  StudyPlan fewer = plan();
  fewer.dumps[0].samples[0].layers = {0};
  EXPECT_NE(configuration_json(configuration(), fewer), study);
}

TEST(Manifest, RecognisesItsStudy) {
  const StudyConfiguration study = configuration();
  const std::string text = configuration_json(study, plan());
  const Manifest manifest{.command_line = {},
                          .configuration = text,
                          .device = "",
                          .started = "",
                          .ended = "",
                          .input_hashes = {""},
                          .left_out = {}};
  EXPECT_TRUE(same_study(manifest_json(manifest, study), text));
  StudyConfiguration other = study;
  other.lambdas = {1};
  EXPECT_FALSE(same_study(manifest_json(manifest, study), configuration_json(other, plan())));
  EXPECT_FALSE(same_study("", text));
  EXPECT_FALSE(same_study("[]", text));
}

}  // namespace
}  // namespace attest
