// Scales of keys and values, in a safetensors file.
#include <cmath>
#include <cstdint>

#include "dumps/base/json.h"
#include "kernels/kv_formats/scales_file.h"
#include "tests/dumps/scratch_folder.h"
#include "tests/fuzz/byte_mutation.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/json_mutation.h"

namespace attest::fuzz {
namespace {

Json tensor(const char* type, Json shape, std::uint64_t begin, std::uint64_t end) {
  return {{"dtype", type}, {"shape", std::move(shape)}, {"data_offsets", Json::array({begin, end})}};
}

class ScalesTarget : public FuzzTarget {
 public:
  std::string make(RandomStream& random) override {
    const Json header{{"model.layers.0.self_attn.k_scale", tensor("F32", Json::array({1}), 0, 4)},
                      {"model.layers.0.self_attn.v_scale", tensor("F32", Json::array({2}), 4, 12)},
                      {"model.layers.12.self_attn.attn_k_scale", tensor("BF16", Json::array(), 12, 14)},
                      {"model.embed", tensor("F16", Json::array({1}), 14, 16)}};
    const std::string text = mutated_json(header, random);
    std::uint64_t size = random.below(20) == 0 ? any_of(random, kOddNumbers) : text.size();
    std::string file(reinterpret_cast<const char*>(&size), sizeof size);
    file += text + std::string("\0\0\x80\x3f\0\0\0\x40\0\0\0\x3f\x80\x3f\0\x3c", 16);
    if (random.below(8) == 0) damage_bytes(file, random);
    return file;
  }

  Outcome read(const std::string& input) override {
    const std::string path = folder_.write("s.safetensors", input);
    return outcome_of(path, [&] {
      const ScalesFile file(path);
      for (const auto* scales : {&file.keys, &file.values})
        for (const auto& [layer, numbers] : *scales) {
          require(layer >= 0 && !numbers.empty(), "a layer without scales");
          for (const float number : numbers) require(number > 0 && std::isfinite(number), "a scale that is none");
        }
    });
  }

 private:
  ScratchFolder folder_;
};

}  // namespace

const TargetInfo kScalesTarget{"scales", ".safetensors", 3'000,
                               [] { return std::unique_ptr<FuzzTarget>(new ScalesTarget); }};

}  // namespace attest::fuzz
