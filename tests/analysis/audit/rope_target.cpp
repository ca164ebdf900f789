// Rotary parameters, in JSON, as a dump's attribute `rope` has them.
#include <cmath>

#include "analysis/audit/rope.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/json_mutation.h"

namespace attest::fuzz {
namespace {

constexpr int kHeadDim = 8;

Json seed(RandomStream& random) {
  switch (random.below(3)) {
    case 0:
      return parse_json(R"({"rope_type": "llama3", "inv_freq": [1.0, 0.5, 0.25], "first_channel": 2})");
    case 1:
      return parse_json(R"({"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5})");
    default:
      return parse_json(R"({"full": {"theta": 100.0}, "sliding": {"rope_theta": 1e4}, "first_channel": 4,
                            "layer_types": ["sliding", "full"]})");
  }
}

class RopeTarget : public FuzzTarget {
 public:
  std::string make(RandomStream& random) override { return mutated_json(seed(random), random); }

  Outcome read(const std::string& input) override {
    Outcome outcome = Outcome::refused;
    for (int layer = 0; layer < 3; ++layer) {
      const std::optional<Rope> rope = rope_of_layer(input, layer, kHeadDim);
      if (!rope) continue;
      outcome = Outcome::accepted;
      require(!rope->frequencies.empty() && rope->first_channel >= 0, "pairs of channels");
      require(rope->first_channel + 2 * std::ssize(rope->frequencies) <= kHeadDim, "channels beyond the vector's");
      for (const double frequency : rope->frequencies) require(std::isfinite(frequency), "a frequency that is none");
    }
    return outcome;
  }
};

}  // namespace

const TargetInfo kRopeTarget{"rope", ".json", 10'000, [] { return std::unique_ptr<FuzzTarget>(new RopeTarget); }};

}  // namespace attest::fuzz
