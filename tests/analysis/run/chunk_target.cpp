// Chunks of a study, which come back from other machines. What is mutated: the study's description, sizes, places in
// the plan, and the bytes of units, whose checksums are right.
#include <atomic>
#include <cstring>
#include <span>

#include "analysis/results/unit_check.h"
#include "analysis/run/chunk.h"
#include "dumps/base/content_hash.h"
#include "dumps/base/json.h"
#include "tests/dumps/scratch_folder.h"
#include "tests/fuzz/byte_mutation.h"
#include "tests/fuzz/fuzz_study.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/json_mutation.h"

namespace attest::fuzz {
namespace {

constexpr const char* kConfiguration = R"({"selectors": [{"label": "ffd"}], "dumps": [{"path": "/a.h5"}]})";
constexpr std::string_view kMagic = "attest chunk 1\n";

std::string bytes_of(std::uint64_t number) { return {reinterpret_cast<const char*>(&number), sizeof number}; }

/// Mostly the right one.
std::string number(std::uint64_t right, RandomStream& random) {
  return bytes_of(random.below(12) == 0 ? any_of(random, kOddNumbers) : right);
}

class ChunkTarget : public FuzzTarget {
 public:
  ChunkTarget() {
    run_.study = fuzz_study();
    run_.configuration = kConfiguration;
    std::vector<InputStatus> inputs;
    for (std::size_t d = 0; d < run_.study.dumps.size(); ++d) {
      const StudyDump& dump = run_.study.dumps[d];
      inputs.push_back(input_status(folder_.write(dump.path, std::string(100, 'd'))));
      for (std::size_t s = 0; s < dump.samples.size(); ++s)
        for (const int layer : dump.samples[s].layers) run_.plan.units.push_back({d, s, layer});
    }
    run_.hashes = std::make_unique<InputHashes>(inputs, 1);
    partial_.emplace(folder_.file("r.partial"), PartialResults::Start::fresh, kConfiguration, &run_.study);
    for (const UnitKey& unit : run_.plan.units) {
      LayerResults results = fuzz_results(run_.study, unit);
      results.input_blocks.clear();
      units_.push_back(partial_->encode(results));
    }
  }

  std::string make(RandomStream& random) override {
    Json description{{"by", "process 12 on 'node2'"}, {"study", parse_json(kConfiguration)}};
    const std::string text = random.below(3) == 0 ? mutated_json(description, random) : description.dump();
    std::string chunk = std::string(kMagic) + number(text.size(), random) + text;
    for (std::uint64_t count = random.below(3); count > 0; --count) {
      const std::uint64_t place = random.below(units_.size());
      std::string unit = units_[place];
      if (random.below(2) == 0) {
        damage_bytes(unit, random);
        if (unit.size() >= sizeof(std::uint64_t)) {
          unit.resize(unit.size() - sizeof(std::uint64_t));
          unit += bytes_of(hash_of(std::as_bytes(std::span(unit))));
        }
      }
      chunk += number(place, random) + number(unit.size(), random) + unit;
    }
    if (random.below(8) == 0) damage_bytes(chunk, random);
    return chunk;
  }

  Outcome read(const std::string& input) override {
    const std::string path = folder_.write("c.chunk", input);
    const Outcome outcome = outcome_of(path, [&] {
      take_chunk(
          path, run_, *partial_, [](const UnitKey&, const LayerResults&) {}, stop_);
    });
    for (const UnitKey& unit : PartialResults::unit_files(partial_->folder())) {
      require(partial_->state(unit) != UnitState::missing, "took a unit that does not belong");
      std::filesystem::remove(
          fmt::format("{}/unit-{}-{}-{}.bin", partial_->folder(), unit.dump, unit.sample, unit.layer));
    }
    return outcome;
  }

 private:
  ScratchFolder folder_;
  PreparedStudy run_;
  std::optional<PartialResults> partial_;
  std::vector<std::string> units_;
  std::atomic<bool> stop_ = false;
};

}  // namespace

const TargetInfo kChunkTarget{"chunk", ".chunk", 2'000, [] { return std::unique_ptr<FuzzTarget>(new ChunkTarget); }};

}  // namespace attest::fuzz
