// Recommendations as a selector reads them: KV heads, what is refused and how, the options that must agree.
#include "kernels/selectors/settings_file.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "dumps/base/json.h"
#include "kernels/selectors/registry.h"
#include "tests/dumps/json_edit.h"
#include "tests/dumps/scratch_folder.h"
#include "tests/message_of.h"

namespace attest {
namespace {

Json sound() {
  return {{"format", "attest-recommendation"},
          {"format_version", 1},
          {"model", "m"},
          {"selector", {{"name", "ffd"}, {"options", {{"bits", "2"}, {"gqa", "union"}, {"settings_file", "old"}}}}},
          {"setting", "delta"},
          {"default", 7},
          {"layers",
           {{"13", {{"default", 5.5}, {"kv_heads", {{"2", 7.25}, {"3", "dense"}}}}},
            {"2", {{"kv_heads", {{"0", 0}}}}},
            {"4", {{"default", "dense"}}},
            {"5", Json::object()}}},
          {"claim", {{"confidence", 0.95}}},
          {"results", Json::array()},
          {"program", "1"}};
}

/// `bytes` as a file, and the message with which it is refused, without the file's name.
std::string refusal(std::string_view bytes) {
  const ScratchFolder folder;
  const std::string path = folder.write("rec.json", bytes);
  return refusal_of_file<InputError>(path, [&] { read_settings_file(path); });
}
/// The same for the sound document with another value at `place`.
std::string refusal_of(const std::string& place, const Json& value) {
  Json document = sound();
  json_at(document, place) = value;
  return refusal(document.dump());
}
std::string refusal_without(const char* name) {
  Json document = sound();
  remove_member(document, name);
  return refusal(document.dump());
}

SettingsFile read(const Json& document) {
  const ScratchFolder folder;
  return read_settings_file(folder.write("rec.json", document.dump()));
}

TEST(SettingsFile, UnitsHaveTheirOwnElseTheirLayersElseTheModels) {
  const SettingsFile file = read(sound());
  EXPECT_EQ(file.model, "m");
  EXPECT_EQ(file.selector, "ffd");
  EXPECT_EQ(file.options.size(), 3u);
  const auto at = [&](int layer, int head) { return file.settings.at(layer, head); };
  const HeadSetting dense{.value = 0, .dense = true};
  EXPECT_EQ(at(13, 2), (HeadSetting{7.25, false}));
  EXPECT_EQ(at(13, 3), dense);
  EXPECT_EQ(at(13, 0), (HeadSetting{5.5, false}));
  EXPECT_EQ(at(2, 0), (HeadSetting{0, false}));
  EXPECT_EQ(at(2, 1), (HeadSetting{7, false}));
  EXPECT_EQ(at(4, 9), dense);
  EXPECT_EQ(at(5, 0), (HeadSetting{7, false}));
  EXPECT_EQ(at(99, 0), (HeadSetting{7, false}));
}

TEST(SettingsFile, MostOfItMayBeAbsent) {
  Json document = sound();
  for (const char* name : {"model", "selector", "layers", "claim", "results", "program"}) remove_member(document, name);
  document["default"] = "dense";
  const SettingsFile file = read(document);
  EXPECT_EQ(file.model + file.selector, "");
  EXPECT_TRUE(file.settings.at(0, 0).dense);
  document["selector"] = "topdelta";
  EXPECT_EQ(read(document).selector, "topdelta");
  document["default"] = "inf";
  EXPECT_TRUE(std::isinf(read(document).settings.at(0, 0).value));
}

TEST(SettingsFile, WhatIsWrittenIsReadBack) {
  HeadSettings settings{.fallback = {0.1, false}};
  settings.layers[0].fallback = HeadSetting{1.0 / 3, false};
  settings.layers[12].kv_heads = {{0, {0, true}}, {7, {std::numeric_limits<double>::infinity(), false}}};
  settings.layers[3] = {};
  Json document = {{"format", kRecommendationFormat}, {"format_version", kRecommendationVersion}, {"setting", "delta"}};
  document.update(head_settings_json(settings));
  EXPECT_EQ(read(document).settings, settings);
  EXPECT_EQ(
      head_settings_json(settings).dump(),
      R"({"default":0.1,"layers":{"0":{"default":0.3333333333333333},"3":{},"12":{"kv_heads":{"0":"dense","7":"inf"}}}})");
}

TEST(SettingsFile, BadOnesAreRefusedWithTheirPlace) {
  EXPECT_EQ(refusal("{").substr(0, 19), "line 1, column 2: s");
  EXPECT_EQ(refusal(std::string(100'000, '[')), "more than 64 levels");
  EXPECT_EQ(refusal("[1]"), "expected a recommendation, a JSON object, found a list");
  EXPECT_EQ(refusal_without("format"), "format is missing, expected \"attest-recommendation\"");
  EXPECT_EQ(refusal_of("/format", "other"), "format is \"other\", expected \"attest-recommendation\"");
  EXPECT_EQ(refusal_of("/format_version", 2), "format_version is 2, expected 1");
  EXPECT_EQ(refusal_of("/setting", "budget"), "setting is \"budget\", expected \"delta\"");
  EXPECT_EQ(refusal_of("/model", 3), "model is 3, expected a text");
  EXPECT_EQ(refusal_of("/selector", 3), "selector is 3, expected a text");
  EXPECT_EQ(refusal_of("/selector/name", Json::array()), "selector.name is a list, expected a text");
  EXPECT_EQ(refusal_of("/selector/options", 3), "selector.options is 3, expected an object");
  EXPECT_EQ(refusal_of("/selector/options/bits", 2), "selector.options.bits is 2, expected a text");
  EXPECT_EQ(refusal_without("default"), "default is missing, expected a number of at least 0, \"inf\" or \"dense\"");
  const std::string number = ", expected a number of at least 0, \"inf\" or \"dense\"";
  EXPECT_EQ(refusal_of("/default", -1), "default is -1" + number);
  EXPECT_EQ(refusal_of("/default", nullptr), "default is null" + number);
  EXPECT_EQ(refusal_of("/default", "5"), "default is \"5\"" + number);
  EXPECT_EQ(refusal_of("/default", true), "default is true" + number);
  EXPECT_EQ(refusal_of("/layers", 3), "layers is 3, expected an object");
  EXPECT_EQ(refusal_of("/layers/13", 5.5), "layers.13 is 5.5, expected an object");
  EXPECT_EQ(refusal_of("/layers/13/default", -0.5), "layers.13.default is -0.5" + number);
  EXPECT_EQ(refusal_of("/layers/13/kv_heads", Json::array()), "layers.13.kv_heads is a list, expected an object");
  EXPECT_EQ(refusal_of("/layers/13/kv_heads/2", Json::object()), "layers.13.kv_heads.2 is an object" + number);
  EXPECT_EQ(refusal_of("/layers/13/heads", 3), "layers.13.heads is unknown, expected 'default' or 'kv_heads'");
  for (const char* name : {"x", "-1", "1.0", "013", "", " 1", "99999999999"}) {
    EXPECT_EQ(refusal_of(std::string("/layers/") + name, Json::object()),
              std::string("layers.") + name + " has no number of a layer as its name");
    EXPECT_EQ(refusal_of(std::string("/layers/13/kv_heads/") + name, 1),
              std::string("layers.13.kv_heads.") + name + " has no number of a KV head as its name");
  }
  EXPECT_EQ(refusal_of("/layers/\n", Json::object()), "layers.\\x0a has no number of a layer as its name");
}

TEST(SettingsFile, NothingIsThereTwice) {
  const auto with = [](const std::string& layers) {
    return R"({"format": "attest-recommendation", "format_version": 1, "setting": "delta", "default": 1, )" + layers +
           "}";
  };
  EXPECT_EQ(refusal(with(R"("layers": {"1": {"default": 1}, "2": {"default": 1}})")), "");
  EXPECT_EQ(refusal(with(R"("default": 2)")), "default is there twice, expected once");
  EXPECT_EQ(refusal(with(R"("layers": {"13": {}, "13": {}})")), "layers.13 is there twice, expected once");
  EXPECT_EQ(refusal(with(R"("layers": {"13": {"kv_heads": {"0": 1, "2": 1, "2": "dense"}}})")),
            "layers.13.kv_heads.2 is there twice, expected once");
}

TEST(SettingsFile, OtherFilesAreRefused) {
  const ScratchFolder folder;
  EXPECT_NE(message_of<InputError>([&] { read_settings_file(folder.file("none.json")); }).find("cannot be opened"),
            std::string::npos);
  EXPECT_NE(message_of<InputError>([&] { read_settings_file("/dev/zero"); }).find("expected a file"),
            std::string::npos);
  EXPECT_EQ(refusal(std::string((16 << 20) + 1, ' ')),
            "has 16777217 bytes, expected a recommendation of at most 16777216");
}

TEST(SettingsFile, UnitsMustBeOfTheModel) {
  SettingsFile file = read(sound());
  EXPECT_NO_THROW(check_heads(file, 14, 4, "d.h5"));
  file.path = "rec.json";
  EXPECT_EQ(message_of<InputError>([&] { check_heads(file, 13, 4, "d.h5"); }),
            "rec.json: layers.13 is no layer of d.h5, whose model has 13");
  EXPECT_EQ(message_of<InputError>([&] { check_heads(file, 14, 3, "d.h5"); }),
            "rec.json: layers.13.kv_heads.3 is no KV head of d.h5, whose layers have 3");
}

class SelectorWithFile : public testing::Test {
 protected:
  std::unique_ptr<Selector> make(const std::string& name, OptionPairs options = {}) const {
    options.emplace_back("settings_file", path_);
    return make_selector({.label = "", .name = name, .options = options});
  }
  std::string usage(const std::string& name, const OptionPairs& options = {}) const {
    return message_of<UsageError>([&] { make(name, options); });
  }
  void write(const Json& document) const { folder_.write("rec.json", document.dump()); }

  const ScratchFolder folder_;
  const std::string path_ = folder_.write("rec.json", sound().dump());
};

TEST_F(SelectorWithFile, ShiftsSettings) {
  const std::unique_ptr<Selector> ffd = make("ffd");
  ASSERT_NE(ffd->settings_file(), nullptr);
  EXPECT_EQ(ffd->input_files(), (std::vector{path_}));
  EXPECT_EQ(ffd->setting_shift(13, 2), 7.25);
  EXPECT_EQ(ffd->setting_shift(0, 0), 7);
  EXPECT_TRUE(std::isnan(ffd->setting_shift(13, 3)));
  EXPECT_TRUE(ffd->is_dense(13, 3));
  EXPECT_FALSE(ffd->is_dense(13, 2));
  const AscendingGrid grid = ascending(*ffd, std::vector<Setting>{{2}, {0}, {0.5}}, 1000, 7.25);
  EXPECT_EQ(grid.values, (std::vector<double>{7.25, 7.75, 9.25}));
  EXPECT_EQ(grid.given_index, (std::vector<int>{1, 2, 0}));
}

TEST_F(SelectorWithFile, DenseLayersStay) {
  const std::unique_ptr<Selector> ffd = make("ffd", {{"dense_layers", "3"}});
  EXPECT_TRUE(ffd->is_dense(2, 0));
  EXPECT_FALSE(ffd->is_dense(3, 0));
  EXPECT_TRUE(ffd->is_dense(4, 0));
  EXPECT_TRUE(std::isnan(ffd->setting_shift(2, 0)));
}

TEST_F(SelectorWithFile, WithoutAFileNothingShifts) {
  for (const char* name : {"ffd", "topdelta", "skip_softmax"}) {
    const std::unique_ptr<Selector> selector =
        make_selector({.label = "", .name = name, .options = {{"settings_file", ""}}});
    EXPECT_EQ(selector->settings_file(), nullptr) << name;
    EXPECT_EQ(selector->setting_shift(13, 3), 0) << name;
    EXPECT_FALSE(selector->is_dense(13, 3)) << name;
    EXPECT_TRUE(selector->input_files().empty()) << name;
  }
}

TEST_F(SelectorWithFile, NeedsADelta) {
  EXPECT_EQ(
      usage("ffd", {{"rule", "topk"}}),
      "selector 'ffd': option 'settings_file' needs rule=topdelta: its file has deltas, and here the setting is a "
      "budget");
  Json document = sound();
  document["selector"] = "skip_softmax";
  write(document);
  EXPECT_NO_THROW(make("skip_softmax"));
  EXPECT_EQ(
      usage("skip_softmax", {{"unit", "factor"}}),
      "selector 'skip_softmax': option 'settings_file' needs unit=delta: its file has deltas, and here the setting "
      "is a factor");
  document["selector"] = "topdelta";
  write(document);
  EXPECT_NO_THROW(make("topdelta"));
  for (const char* name : {"topk", "topp", "quest", "sale"})
    EXPECT_TRUE(usage(name).starts_with(std::string("selector '") + name + "' has no option 'settings_file'"))
        << usage(name);
}

TEST_F(SelectorWithFile, MustBeTheOneThatTheFileWasMadeFor) {
  EXPECT_EQ(usage("topdelta"), "selector 'topdelta': " + path_ + " has settings for selector 'ffd'");
  EXPECT_EQ(usage("ffd", {{"gqa", "per_head"}}),
            "selector 'ffd': option 'gqa' is 'per_head', and " + path_ + " was made with 'union'");
  EXPECT_EQ(usage("ffd", {{"residual", "int8"}}), "") << "not recorded";
  Json document = sound();
  document["selector"]["options"]["colour"] = "red";
  write(document);
  EXPECT_EQ(usage("ffd"),
            "selector 'ffd': " + path_ + " was made with option 'colour' = 'red', which the selector does not have");
}

}  // namespace
}  // namespace attest
