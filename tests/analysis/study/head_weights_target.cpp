// Head weights, in JSON, as attest run --weights reads them.
#include <cmath>

#include "analysis/study/head_weights.h"
#include "dumps/base/json.h"
#include "tests/dumps/scratch_folder.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/json_mutation.h"

namespace attest::fuzz {
namespace {

Json seed() {
  return {{"format", "attest-head-weights"},
          {"format_version", 1},
          {"model", "m"},
          {"num_layers", 4},
          {"num_query_heads", 3},
          {"prompts", 2},
          {"layers",
           {{"0", {{"prompts", 2}, {"weights", Json::array({0, 1.5, 2})}}},
            {"3", {{"prompts", 1}, {"weights", Json::array({1e-9, 3e38, 4})}}}}}};
}

class HeadWeightsTarget : public FuzzTarget {
 public:
  std::string make(RandomStream& random) override { return mutated_json(seed(), random); }

  Outcome read(const std::string& input) override {
    const std::string path = folder_.write("weights.json", input);
    return outcome_of(path, [&] {
      const HeadWeights found = read_head_weights(path);
      for (const auto& [layer, weights] : found.layers) {
        require(layer >= 0 && layer < found.num_layers, "a layer beyond the model's");
        require(weights.size() == static_cast<std::size_t>(found.num_query_heads), "a weight for each head");
        for (const float weight : weights) require(weight >= 0 && std::isfinite(weight), "a weight that is none");
      }
    });
  }

 private:
  ScratchFolder folder_;
};

}  // namespace

const TargetInfo kHeadWeightsTarget{"head_weights", ".json", 10'000,
                                    [] { return std::unique_ptr<FuzzTarget>(new HeadWeightsTarget); }};

}  // namespace attest::fuzz
