// Recommendations, in JSON, as the option settings_file reads them.
#include "dumps/base/json.h"
#include "kernels/selectors/settings_file.h"
#include "tests/dumps/scratch_folder.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/json_mutation.h"
#include "tests/fuzz/recommended_settings.h"

namespace attest::fuzz {
namespace {

class SettingsTarget : public FuzzTarget {
 public:
  std::string make(RandomStream& random) override { return mutated_json(recommended_settings(), random); }

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
