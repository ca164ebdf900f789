// Packed JSON, which a guarded child gives to its parent: a file may have corrupted the child's memory.
#include "dumps/base/json_packed.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/json_mutation.h"

namespace attest::fuzz {
namespace {

Json seed() {
  return {{"name", "a"},
          {"counts", Json::array({0, -3, std::uint64_t{1} << 63, 1.5, 1e300})},
          {"flags", Json::array({true, false, nullptr})},
          {"inner", {{"list", Json::array()}, {"object", Json::object()}}}};
}

/// Other bytes at up to three places, or an end that is missing.
std::string damaged(std::string bytes, RandomStream& random) {
  for (std::uint64_t i = random.below(4); i > 0 && !bytes.empty(); --i)
    bytes[random.below(bytes.size())] = static_cast<char>(random.below(random.below(2) == 0 ? 12 : 256));
  if (random.below(8) == 0) bytes.resize(random.below(bytes.size() + 1));
  return bytes;
}

class PackedTarget : public FuzzTarget {
 public:
  std::string make(RandomStream& random) override {
    const std::optional<Json> changed = parsed_json(mutated_json(seed(), random));
    return damaged(packed(changed ? *changed : seed()), random);
  }

  Outcome read(const std::string& input) override {
    return outcome_of("", [&] {
      const std::string bytes = packed(unpacked(input));
      require(packed(unpacked(bytes)) == bytes, "a value that packs to itself");  // NaN is not equal to itself
    });
  }
};

}  // namespace

const TargetInfo kPackedTarget{"packed", ".bin", 10'000, [] { return std::unique_ptr<FuzzTarget>(new PackedTarget); }};

}  // namespace attest::fuzz
