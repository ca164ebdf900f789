// Notices and errors about settings files that were made for another model.
#include "analysis/study/settings_files.h"

#include <gtest/gtest.h>

#include "tests/analysis/studies.h"
#include "tests/dumps/scratch_folder.h"
#include "tests/message_of.h"

namespace attest::test {
namespace {

class SettingsFiles : public testing::Test {
 protected:
  Study study(const std::string& file, const std::vector<std::string>& models) const {
    const std::string path = folder_.write("rec.json", R"({"format": "attest-recommendation", "format_version": 1,
        "setting": "delta", "default": 5, )" + file + "}");
    Study study = study_of({study_selector("quest", {{64}}), study_selector("ffd:settings_file=" + path, {{0}}),
                            study_selector("topdelta:settings_file=" + path, {{0}})});
    for (const std::string& model : models)
      study.dumps.push_back({.path = model + ".h5",
                             .model = model,
                             .num_layers = 4,
                             .shape = {.num_query_heads = 8, .num_kv_heads = 2, .head_dim = 64, .value_dim = 64},
                             .samples = {}});
    return study;
  }

  const ScratchFolder folder_;
};

TEST_F(SettingsFiles, OtherModelsAreNamedOnce) {
  const std::string path = folder_.file("rec.json");
  EXPECT_TRUE(settings_file_notices(study(R"("model": "a")", {"a", "a"})).empty());
  EXPECT_TRUE(settings_file_notices(study(R"("program": "1")", {"a", "b"})).empty());
  EXPECT_EQ(settings_file_notices(study(R"("model": "a")", {"a", "b", "c"})),
            (std::vector<std::string>{"the settings of " + path + " were made for the model 'a', and b.h5 is of 'b'",
                                      "the settings of " + path + " were made for the model 'a', and c.h5 is of 'c'"}));
}

TEST_F(SettingsFiles, UnitsMustExist) {
  EXPECT_TRUE(settings_file_notices(study(R"("layers": {"3": {"kv_heads": {"1": 2}}})", {"a"})).empty());
  EXPECT_EQ(message_of<InputError>([&] { settings_file_notices(study(R"("layers": {"4": {}})", {"a"})); }),
            folder_.file("rec.json") + ": layers.4 is no layer of a.h5, whose model has 4");
  EXPECT_EQ(message_of<InputError>(
                [&] { settings_file_notices(study(R"("layers": {"3": {"kv_heads": {"2": "dense"}}})", {"a"})); }),
            folder_.file("rec.json") + ": layers.3.kv_heads.2 is no KV head of a.h5, whose layers have 2");
}

TEST(ShiftsSettings, IsSaidByTheOptions) {
  StudySelector selector;
  for (const char* options : {"", "null", "[]", "{}", R"({"settings_file": ""})", R"({"gqa": "union"})"}) {
    selector.options_json = options;
    EXPECT_FALSE(shifts_settings(selector)) << options;
  }
  selector.options_json = R"({"settings_file": "rec.json"})";
  EXPECT_TRUE(shifts_settings(selector));
}

}  // namespace
}  // namespace attest::test
