// The file of a finished unit: a checksum, behind which lie lengths and counts. The mutated inputs have a right
// checksum.
#include <cstring>
#include <span>

#include "analysis/results/layer_results_codec.h"
#include "analysis/results/partial_results.h"
#include "analysis/results/study_difference.h"
#include "analysis/results/unit_check.h"
#include "dumps/base/content_hash.h"
#include "tests/dumps/scratch_folder.h"
#include "tests/fuzz/byte_mutation.h"
#include "tests/fuzz/fuzz_study.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/text_mutation.h"

namespace attest::fuzz {
namespace {

constexpr UnitKey kUnit{.dump = 0, .sample = 0, .layer = 2};
constexpr const char* kStudyJson = R"({"selectors": []})";
constexpr std::size_t kMagicBytes = 14;

std::uint64_t hash_of_text(std::string_view text) { return hash_of(std::as_bytes(std::span(text))); }

/// The smaller the values, the more of the changes hit lengths and names.
LayerResults seed(const Study& study, RandomStream& random) {
  LayerResults results = fuzz_results(study, kUnit);
  const auto thin = [&](std::vector<MetricValues>& metrics, std::size_t maximum) {
    while (metrics.size() > maximum) metrics.erase(metrics.begin() + static_cast<long>(random.below(metrics.size())));
  };
  thin(results.scores, 2);
  for (SelectorLayerResults& selector : results.selectors) thin(selector.metrics, 3);
  return results;
}

/// A change that the writer could have made.
void change_fields(LayerResults& results, RandomStream& random) {
  std::vector<MetricValues>& metrics =
      results.selectors.empty() || random.below(3) == 0 ? results.scores : any_of(random, results.selectors).metrics;
  const std::uint64_t odd = any_of(random, kOddNumbers);
  switch (random.below(9)) {
    case 0:
      results.dump = static_cast<int>(odd);
      return;
    case 1:
      results.layer = static_cast<int>(odd);
      return;
    case 2:
      results.sample = odd_text(random);
      return;
    case 3:
      results.done = false;
      return;
    case 4:
      if (random.below(2) == 0)
        results.selectors.resize(random.below(5));
      else
        results.input_blocks.resize(random.below(200), {odd, odd});
      return;
    case 5:
      metrics.resize(random.below(5), {odd_text(random), static_cast<MetricAxes>(random.below(7)), {1, 2}});
      return;
  }
  if (metrics.empty()) return;
  MetricValues& metric = any_of(random, metrics);
  switch (random.below(4)) {
    case 0:
      metric.name = random.below(2) == 0 ? odd_text(random) : std::string(any_of(random, all_metrics()).info.name);
      break;
    case 1:
      metric.axes = static_cast<MetricAxes>(random.below(256));
      break;
    case 2:
      metric.values.resize(random.below(2 * metric.values.size() + 2));
      break;
    case 3:
      metrics.push_back(MetricValues(metric));
      break;
  }
}

class UnitTarget : public FuzzTarget {
 public:
  UnitTarget() : partial_(folder_.file("r.partial"), PartialResults::Start::fresh, kStudyJson, &study_) {}

  std::string make(RandomStream& random) override {
    LayerResults results = seed(study_, random);
    for (std::uint64_t times = random.below(3); times > 0; --times) change_fields(results, random);
    std::string bytes = encode(results, study_identity(kStudyJson));
    if (random.below(3) != 0) damage_bytes(bytes, random, 3, random.below(50) == 0 ? 0 : kMagicBytes);
    if (random.below(100) != 0) repair(bytes);
    return bytes;
  }

  void repair(std::string& bytes) const override {
    bytes.resize(bytes.size() - std::min(bytes.size(), sizeof(std::uint64_t)));
    const std::uint64_t checksum = hash_of_text(bytes);
    bytes.append(reinterpret_cast<const char*>(&checksum), sizeof checksum);
  }

  /// Refused is a unit that counts as missing.
  Outcome read(const std::string& input) override {
    const std::optional<LayerResults> results = decode_layer_results(input, study_identity(kStudyJson));
    const bool belongs = results && belongs_to(*results, kUnit, study_);
    if (results) check(*results, input, belongs);
    if (hash_of_text(input) % 32 == 0) check_file(input, belongs);
    return belongs ? Outcome::accepted : Outcome::refused;
  }

 private:
  static void check(const LayerResults& results, const std::string& input, bool belongs) {
    // A flag may be any byte but 0, so that the bytes may differ; what they hold may not.
    const std::string again = encode(results, study_identity(kStudyJson));
    require(again.size() == input.size(), "encoded again, it has another size");
    const std::optional<LayerResults> twice = decode_layer_results(again, study_identity(kStudyJson));
    require(twice && encode(*twice, 0) == encode(results, 0), "encoded again, it is another unit");
    if (!belongs || !results.done) return;
    for (const SelectorLayerResults& selector : results.selectors)
      for (const MetricValues& metric : selector.metrics) require(!metric.values.empty(), "a metric without values");
  }

  void check_file(const std::string& input, bool belongs) {
    folder_.write("r.partial/unit-0-0-2.bin", input);
    const UnitState state = partial_.state(kUnit);
    require((state != UnitState::missing) == belongs, "the folder says another thing than the decoder");
  }

  const Study study_ = fuzz_study();
  ScratchFolder folder_;
  PartialResults partial_;
};

}  // namespace

const TargetInfo kUnitTarget{"unit", ".bin", 20'000, [] { return std::unique_ptr<FuzzTarget>(new UnitTarget); }};

}  // namespace attest::fuzz
