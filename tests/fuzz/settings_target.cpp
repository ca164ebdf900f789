// Recommendations, in JSON, as the option settings_file reads them.
#include <cmath>

#include "dumps/base/json.h"
#include "kernels/selectors/settings_file.h"
#include "tests/dumps/scratch_folder.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/json_mutation.h"

namespace attest::fuzz {
namespace {

Json seed() {
  return {{"format", "attest-recommendation"},
          {"format_version", 1},
          {"model", "m"},
          {"selector", {{"name", "ffd"}, {"options", {{"bits", "2"}, {"gqa", "union"}}}}},
          {"setting", "delta"},
          {"default", 7},
          {"layers",
           {{"13", {{"default", 5.5}, {"kv_heads", {{"2", 7.25}, {"3", "dense"}}}}},
            {"2", {{"kv_heads", {{"0", 0}}}}},
            {"4", {{"default", "dense"}}}}},
          {"claim", {{"confidence", 0.95}}}};
}

class SettingsTarget : public FuzzTarget {
 public:
  std::string make(RandomStream& random) override { return mutated_json(seed(), random); }

  Outcome read(const std::string& input) override {
    const std::string path = folder_.write("rec.json", input);
    return outcome_of(path, [&] {
      const SettingsFile file = read_settings_file(path);
      check_heads(file, 14, 4, "dump.h5");
      for (int layer = 0; layer < 14; ++layer)
        for (int head = 0; head < 4; ++head) require(file.settings.at(layer, head).value >= 0, "a delta below 0");
    });
  }

 private:
  ScratchFolder folder_;
};

}  // namespace

const TargetInfo kSettingsTarget{"settings", ".json", 10'000,
                                 [] { return std::unique_ptr<FuzzTarget>(new SettingsTarget); }};

}  // namespace attest::fuzz
