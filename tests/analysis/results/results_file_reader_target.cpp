// Results files: their structure and values, and the check of every value.
#include <optional>

#include "analysis/results/check_results.h"
#include "analysis/results/results_file.h"
#include "analysis/run/manifest.h"
#include "tests/dumps/scratch_folder.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/hdf5_mutation.h"
#include "tests/fuzz/results_seeds.h"

namespace attest::fuzz {
namespace {

void check_array(const ResultsFile& file, std::size_t d, std::size_t s, const std::optional<MetricArray>& array) {
  require(array.has_value(), "a metric that was announced");
  std::size_t count = 1;
  for (const std::int64_t extent : array->shape) count *= static_cast<std::size_t>(extent);
  require(count == array->values.size(), "the number of values");
  require(array->num_layers() == static_cast<std::int64_t>(file.study().dumps[d].samples[s].layers.size()), "layers");
}

void check_file(const ResultsFile& file) {
  for (std::size_t d = 0; d < file.study().dumps.size(); ++d) {
    for (std::size_t i = 0; i < file.study().selectors.size(); ++i)
      require(file.find_selector(file.study().selectors[i].label) == i, "the selector of a label");
    for (std::size_t s = 0; s < file.study().dumps[d].samples.size(); ++s) {
      for (const std::string& metric : file.score_metrics(d, s))
        check_array(file, d, s, file.read_scores(d, s, metric));
      for (std::size_t i = 0; i < file.study().selectors.size(); ++i) {
        const std::size_t layers = file.study().dumps[d].samples[s].layers.size();
        require(file.dense(d, s, i).size() == layers && file.done(d, s, i).size() == layers, "flags of layers");
        for (const std::string& metric : file.metrics(d, s, i)) {
          const std::optional<MetricArray> array = file.read(d, s, i, metric);
          check_array(file, d, s, array);
          require(array->axes == file.axes(d, s, i, metric), "the axes");
        }
      }
    }
  }
  same_study(file.manifest(), R"({"salient_delta": 5})", false);
}

void check_sentence(const ResultsFile& file) {
  const std::string sentence = verdict(file, check_results(file));
  require(printable(sentence) == sentence, "a verdict of more than a line");
}

class ResultsTarget : public FuzzTarget {
 public:
  std::string make(RandomStream& random) override {
    return mutated_hdf5(folder_.file("made.h5"), any_of(random, seeds_), random);
  }

  Outcome read(const std::string& input) override {
    const std::string path = folder_.write("r.h5", input);
    return outcome_of(path, [&] {
      const ResultsFile file(path);
      check_sentence(file);  // also of values that check_file is refused
      check_file(file);
    });
  }

 private:
  ScratchFolder folder_;
  const std::vector<std::string> seeds_ = results_seeds(folder_);
};

}  // namespace

const TargetInfo kResultsTarget{"results", ".h5", 200, [] { return std::unique_ptr<FuzzTarget>(new ResultsTarget); }};

}  // namespace attest::fuzz
