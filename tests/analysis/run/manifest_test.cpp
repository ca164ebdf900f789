// The manifest's contents, and which changes make another study.
#include "analysis/run/manifest.h"

#include <gtest/gtest.h>

#include <limits>
#include <utility>
#include <vector>

#include "dumps/base/json.h"

namespace attest {
namespace {

Study small_study() {
  Study study;
  study.dumps = {{"a.h5", "m", 4, {2, 1, 8, 8}, {{"s", "t", 10, {0, 1}, {9}, false}}}};
  study.selectors = {{.label = "ffd",
                      .name = "ffd",
                      .options_json = R"({"bits":"2"})",
                      .kind = SettingKind::delta,
                      .grid = {{5}, {std::numeric_limits<double>::infinity()}},
                      .setting_labels = {"5", "inf"}}};
  study.salient_delta = 5;
  study.lambdas = {0.5};
  return study;
}

Provenance provenance() {
  return {.program = "1.2.3",
          .git_commit = "abc",
          .device = "cpu",
          .precision = "float64",
          .inputs = {{"a.h5", 100, 42}},
          .sampled = {"77"}};
}

TEST(Manifest, SaysWhatMadeTheResults) {
  const Study study = small_study();
  const Json manifest = parse_json(manifest_json(study, provenance(), configuration_json(study, provenance()),
                                                 {.command_line = {"attest", "run"},
                                                  .device = "CPU, 2 threads",
                                                  .started = "then",
                                                  .ended = "now",
                                                  .input_hashes = {"00ff"},
                                                  .left_out = {{.dump = 0, .sample = 0, .layer = 1}}}));
  EXPECT_EQ(manifest["command_line"], Json::array({"attest", "run"}));
  EXPECT_EQ(manifest["program"]["version"], "1.2.3");
  EXPECT_EQ(manifest["program"]["git_commit"], "abc");
  EXPECT_EQ(manifest["device"], "CPU, 2 threads");
  EXPECT_EQ(manifest["precision"], "float64");
  EXPECT_EQ(manifest["start_time"], "then");
  EXPECT_EQ(manifest["end_time"], "now");
  EXPECT_EQ(manifest["inputs"][0], Json({{"path", "a.h5"}, {"bytes", 100}, {"xxh64_of_1MiB", "00ff"}}));
  EXPECT_EQ(manifest["layers_left_out"][0], Json({{"dump", 0}, {"sample", "s"}, {"layer", 1}}));
  EXPECT_EQ(manifest["configuration"]["selectors"][0]["settings"], Json::array({5.0, "inf"}));
  EXPECT_EQ(manifest["configuration"]["selectors"][0]["options"]["bits"], "2");
}

TEST(Manifest, WhatDecidesTheDataMakesAnotherStudy) {
  const std::string text = configuration_json(small_study(), provenance());
  const auto differs = [&](auto change) {
    Study study = small_study();
    Provenance made_by = provenance();
    change(study, made_by);
    return configuration_json(study, made_by) != text;
  };
  EXPECT_FALSE(differs([](Study&, Provenance&) {}));
  EXPECT_TRUE(differs([](Study& s, Provenance&) { s.selectors[0].grid[0].value = 6; }));
  EXPECT_TRUE(differs([](Study& s, Provenance&) { s.selectors[0].setting_labels[0] = "5.0"; }));
  EXPECT_TRUE(differs([](Study& s, Provenance&) { s.selectors[0].options_json = R"({"bits":"4"})"; }));
  EXPECT_TRUE(differs([](Study& s, Provenance&) { s.selectors[0].kind = SettingKind::budget; }));
  EXPECT_TRUE(differs([](Study& s, Provenance&) { s.selectors[0].name = "quest"; }));
  EXPECT_TRUE(differs([](Study& s, Provenance&) { s.selectors[0].label = "a"; }));
  EXPECT_TRUE(differs([](Study& s, Provenance&) { s.salient_delta = 4; }));
  EXPECT_TRUE(differs([](Study& s, Provenance&) { s.lambdas = {1}; }));
  EXPECT_FALSE(differs([](Study& s, Provenance&) { s.skip_bad_layers = true; })) << "finished layers remain valid";
  EXPECT_TRUE(differs([](Study& s, Provenance&) { s.dumps[0].samples[0].layers = {0}; }));
  EXPECT_TRUE(differs([](Study& s, Provenance&) { s.dumps[0].samples[0].query_positions = {8}; }));
  EXPECT_TRUE(differs([](Study& s, Provenance&) { s.dumps[0].samples[0].name = "other"; }));
  EXPECT_TRUE(differs([](Study&, Provenance& p) { p.git_commit = "def"; }));
  EXPECT_TRUE(differs([](Study&, Provenance& p) { p.program = "1.2.4"; }));
  EXPECT_TRUE(differs([](Study&, Provenance& p) { p.device = "cuda"; }));
  EXPECT_TRUE(differs([](Study&, Provenance& p) { p.precision = "float32"; }));
  EXPECT_TRUE(differs([](Study&, Provenance& p) { p.inputs[0].bytes = 101; }));
  EXPECT_TRUE(differs([](Study&, Provenance& p) { p.sampled[0] = "78"; }));
  EXPECT_FALSE(differs([](Study&, Provenance& p) { p.inputs[0].modified_ns = 43; }))
      << "its content decides, not its time";
}

// Files other than dumps, such as a channel ranking, also determine the results.
TEST(Manifest, OtherInputsAreListedBehindTheDumps) {
  const Study study = small_study();
  Provenance with_file = provenance();
  with_file.inputs.push_back({"ranking.json", 7, 1});
  with_file.sampled.push_back("88");
  const Json configuration = parse_json(configuration_json(study, with_file));
  EXPECT_EQ(configuration["dumps"].size(), 1u);
  ASSERT_EQ(configuration["files"].size(), 1u);
  EXPECT_EQ(configuration["files"][0]["bytes"], 7);
  EXPECT_FALSE(parse_json(configuration_json(study, provenance())).contains("files"));
  const Json manifest = parse_json(manifest_json(study, with_file, configuration.dump(),
                                                 {.command_line = {},
                                                  .device = "",
                                                  .started = "",
                                                  .ended = "",
                                                  .input_hashes = {"00ff", "11ee"},
                                                  .left_out = {}}));
  EXPECT_EQ(manifest["inputs"][1], Json({{"path", "ranking.json"}, {"bytes", 7}, {"xxh64_of_1MiB", "11ee"}}));
}

TEST(Manifest, RecognisesItsStudy) {
  const Study study = small_study();
  const std::string text = configuration_json(study, provenance());
  const RunRecord record{
      .command_line = {}, .device = "", .started = "", .ended = "", .input_hashes = {""}, .left_out = {}};
  EXPECT_TRUE(same_study(manifest_json(study, provenance(), text, record), text, false));
  EXPECT_TRUE(same_study(manifest_json(study, provenance(), text, record), text, true));
  RunRecord with_hole = record;
  with_hole.left_out = {{.dump = 0, .sample = 0, .layer = 1}};
  EXPECT_FALSE(same_study(manifest_json(study, provenance(), text, with_hole), text, false));
  EXPECT_TRUE(same_study(manifest_json(study, provenance(), text, with_hole), text, true));
  Study other = study;
  other.lambdas = {1};
  EXPECT_FALSE(
      same_study(manifest_json(study, provenance(), text, record), configuration_json(other, provenance()), true));
  Provenance renamed = provenance();
  renamed.inputs[0].path = "b.h5";
  EXPECT_TRUE(same_study(manifest_json(study, renamed, configuration_json(study, renamed), record), text, false));
  EXPECT_FALSE(same_study("", text, true));
  EXPECT_FALSE(same_study("[]", text, true));
}

TEST(Manifest, SaysWhatAnotherStudyDiffersIn) {
  const std::string text = configuration_json(small_study(), provenance());
  const auto kind = [&](auto change, std::vector<UnitKey> left_out = {}) {
    Study study = small_study();
    Provenance made_by = provenance();
    change(study, made_by);
    const RunRecord record{.command_line = {},
                           .device = "",
                           .started = "",
                           .ended = "",
                           .input_hashes = {"", ""},
                           .left_out = std::move(left_out)};
    return kind_of_other_study(manifest_json(study, made_by, configuration_json(study, made_by), record), text);
  };
  const Json own = parse_json(text);
  const std::string other_content = "of other inputs: '" + own["dumps"][0u]["path"].text() + "' has other content";
  EXPECT_EQ(kind([](Study&, Provenance&) {}), "");
  EXPECT_EQ(kind([](Study&, Provenance& p) { p.git_commit = "def"; }),
            "of another version: attest 1.2.3, commit def, and this is attest 1.2.3, commit abc");
  EXPECT_EQ(kind([](Study& s, Provenance& p) {
              p.program = "1.2.4";
              s.selectors[0].label = "a";
            }),
            "of other options: selector 1, label = \"a\", this command has \"ffd\"");
  EXPECT_EQ(kind([](Study&, Provenance& p) { p.sampled[0] = "78"; }), other_content);
  EXPECT_EQ(kind([](Study& s, Provenance& p) {
              s.dumps.push_back(s.dumps[0]);
              p.inputs.push_back(p.inputs[0]);
              p.sampled.push_back("78");
            }),
            "of other inputs: 2 dumps, this command has 1");
  EXPECT_EQ(kind([](Study&, Provenance&) {}, {{.dump = 0, .sample = 0, .layer = 1}}),
            "without layers that this command studies");
  for (const char* const damaged : {"", "[]", "{}", R"({"configuration": 3})"})
    EXPECT_EQ(kind_of_other_study(damaged, text), "");
  EXPECT_EQ(kind_of_other_study(R"({"configuration": {"dumps": [3], "program": 4}})", text), other_content);
}

}  // namespace
}  // namespace attest
