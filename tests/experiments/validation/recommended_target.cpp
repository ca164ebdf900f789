// Recommendations, in JSON, as attest monitor reads them.
#include <iterator>

#include "dumps/base/json.h"
#include "experiments/validation/recommendation.h"
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
                       {"n", 40},
                       {"k", 1},
                       {"lengths", Json::array({512, 8192})},
                       {"queries", Json::array({0, 8191})},
                       {"layers", Json::array({0, 13})}};
  document["certified_on"] = Json::array({Json::array({0.95, 0.6}), Json::array({nullptr, 0.7})});
  document["results"] = Json::array({{{"path", "r.h5"}, {"xxh64_of_1MiB", "0123456789abcdef"}}});
  return document;
}

Json mean_seed() {
  Json document = monitored_seed();
  document["shape"] = {{"layers", 14}, {"query_heads", 32}, {"kv_heads", 8}};
  document["claim"].update({{"kind", "mean"}, {"bound", "wsr"}, {"given_clip", 0.9}, {"layers", "all"}});
  return document;
}

/// Of settings that are budgets.
Json budget_seed() {
  Json document = monitored_seed();
  document["selector"] = {{"name", "quest"}, {"options", {{"page", "16"}, {"skip_layers", "2"}}}};
  document["setting"] = "budget";
  document["default"] = "25%";
  document["layers"] = {{"3", 512}, {"5", "dense"}};
  return document;
}

/// Of formats to choose among.
Json candidates_seed(const char* budget) {
  Json document = mean_seed();
  document["setting"] = std::string(kLabelSettings);
  document["default"] = "fp8";
  document["layers"] = {{"0", "dense"}, {"7", "quest@64"}};
  document["candidates"] = Json::array({{{"candidate", "fp8"},
                                         {"label", "fp8"},
                                         {"name", "kv_cache"},
                                         {"setting", nullptr},
                                         {"options", {{"k", "fp8_e4m3"}, {"v", "fp8_e4m3"}, {"k_scale", "amax"}}}},
                                        {{"candidate", "quest@64"},
                                         {"label", "quest"},
                                         {"name", "quest"},
                                         {"setting", budget},
                                         {"options", {{"page", "16"}}}}});
  return document;
}

/// Of a selector whose settings are others.
Json other_kind_seed() {
  Json document = monitored_seed();
  document["selector"] = {{"name", "quest"}, {"options", Json::object()}};
  return document;
}

class RecommendationTarget : public FuzzTarget {
 public:
  std::string make(RandomStream& random) override {
    static const Json kSeeds[]{monitored_seed(),      mean_seed(),       budget_seed(),
                               candidates_seed("64"), other_kind_seed(), candidates_seed("64 tokens")};
    return mutated_json(kSeeds[random.below(std::size(kSeeds))], random);
  }

  Outcome read(const std::string& input) override {
    const std::string path = folder_.write("rec.json", input);
    return outcome_of(path, [&] {
      const Recommended found = read_recommended(path);
      require(!found.targets.empty(), "no target");
      for (const std::vector<double>& prompt : found.certified)
        require(prompt.size() == found.targets.size(), "a number for each target");
      require(found.guarantee.alpha() > 0 && found.guarantee.alpha() < 1, "a confidence");
      check_units(found, {.layers = input.size() % 4 == 0 ? 14 : 12, .query_heads = 32, .kv_heads = 8}, "d.h5");
      check_studied(found);
      require(!selectors_of(found).empty(), "no selector");
      require(study_request(found).candidates.size() == found.candidates.size(), "candidates of its study");
    });
  }

 private:
  ScratchFolder folder_;
};

}  // namespace

const TargetInfo kRecommendationTarget{"recommendation", ".json", 3'000,
                                       [] { return std::unique_ptr<FuzzTarget>(new RecommendationTarget); }};

}  // namespace attest::fuzz
