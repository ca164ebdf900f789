// Recommendations, in JSON, as attest monitor reads them.
#include "dumps/base/json.h"
#include "experiments/validation/recommended.h"
#include "tests/dumps/scratch_folder.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/json_mutation.h"
#include "tests/fuzz/recommended_settings.h"

namespace attest::fuzz {
namespace {

Json monitored_seed() {
  Json document = recommended_settings();
  document["claim"] = {{"kind", "prompts"},
                       {"confidence", 0.95},
                       {"seed", 1},
                       {"beta", 0.1},
                       {"cluster", "document"},
                       {"targets", Json::array({"recall.min>=0.9", "output_error.max<=0.5"})},
                       {"layers", Json::array({0, 13})}};
  document["certified_on"] = Json::array({Json::array({0.95, 0.6}), Json::array({nullptr, 0.7})});
  document["results"] = Json::array({{{"path", "r.h5"}, {"xxh64_of_1MiB", "0123456789abcdef"}}});
  return document;
}

Json mean_seed() {
  Json document = monitored_seed();
  document["claim"].update({{"kind", "mean"}, {"bound", "wsr"}, {"given_clip", 0.9}, {"layers", "all"}});
  return document;
}

class RecommendationTarget : public FuzzTarget {
 public:
  std::string make(RandomStream& random) override {
    return mutated_json(random.below(2) == 0 ? monitored_seed() : mean_seed(), random);
  }

  Outcome read(const std::string& input) override {
    const std::string path = folder_.write("rec.json", input);
    return outcome_of(path, [&] {
      const Recommended found = read_recommended(path);
      require(!found.targets.empty(), "no target");
      for (const std::vector<double>& prompt : found.certified)
        require(prompt.size() == found.targets.size(), "a number for each target");
      require(found.guarantee.alpha() > 0 && found.guarantee.alpha() < 1, "a confidence");
    });
  }

 private:
  ScratchFolder folder_;
};

}  // namespace

const TargetInfo kRecommendationTarget{"recommendation", ".json", 3'000,
                                       [] { return std::unique_ptr<FuzzTarget>(new RecommendationTarget); }};

}  // namespace attest::fuzz
