// Results files: their structure and values, the check of every value, and the tables of the paper's figures.
#include <optional>

#include "analysis/results/check_results.h"
#include "analysis/results/results_file.h"
#include "analysis/run/manifest.h"
#include "experiments/figures/figures.h"
#include "tests/dumps/hdf5_edit.h"
#include "tests/dumps/scratch_folder.h"
#include "tests/fuzz/fuzz_study.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/hdf5_mutation.h"

namespace attest::fuzz {
namespace {

constexpr const char* kManifest = R"({"configuration": {"salient_delta": 5}, "layers_left_out": []})";

/// As the writer writes it, and in HDF5's earliest format, whose bytes have no checksums.
std::vector<std::string> results_seeds(const ScratchFolder& folder) {
  const std::string path = folder.file("seed.h5"), old = folder.file("old.h5");
  const Study study = fuzz_study();
  ResultsWriter writer(path, study);
  test::each_unit(study, [&](int d, int s, int layer) {
    writer.add(fuzz_results(study, {static_cast<std::size_t>(d), static_cast<std::size_t>(s), layer}));
  });
  writer.finish(kManifest);
  {
    const hdf5::Lock lock;
    const test::Handle source = test::own(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT)),
                       target = test::own(H5Fcreate(old.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
    test::done(H5Ocopy(source.get(), "/dumps", target.get(), "dumps", H5P_DEFAULT, H5P_DEFAULT));
  }
  {
    const test::Edit edit(old);
    edit.text("/", "format", "attention-study");
    edit.integer("/", "format_version", 1);
    edit.text("/", "manifest", kManifest);
  }
  return {bytes_of_file(path), bytes_of_file(old)};
}

void check_array(const ResultsFile& file, std::size_t d, std::size_t s, const std::optional<MetricArray>& array) {
  require(array.has_value(), "a metric that was announced");
  std::size_t count = 1;
  for (const std::int64_t extent : array->shape) count *= static_cast<std::size_t>(extent);
  require(count == array->values.size(), "the number of values");
  require(array->num_layers() == static_cast<std::int64_t>(file.study().dumps[d].samples[s].layers.size()), "layers");
}

void check_file(const ResultsFile& file) {
  for (std::size_t d = 0; d < file.study().dumps.size(); ++d) {
    for (std::size_t s = 0; s < file.study().dumps[d].samples.size(); ++s) {
      for (const std::string& metric : file.score_metrics(d, s))
        check_array(file, d, s, file.read_scores(d, s, metric));
      for (std::size_t i = 0; i < file.study().selectors.size(); ++i) {
        const std::size_t layers = file.study().dumps[d].samples[s].layers.size();
        require(file.dense(d, s, i).size() == layers && file.done(d, s, i).size() == layers, "flags of layers");
        for (const std::string& metric : file.metrics(d, s, i)) check_array(file, d, s, file.read(d, s, i, metric));
      }
    }
  }
  const std::string sentence = verdict(file, check_results(file));
  require(printable(sentence) == sentence, "a verdict of more than a line");
  same_study(file.manifest(), R"({"salient_delta": 5})", false);
}

void make_tables(const ResultsFile& file) {
  const ResultsFile* const files[]{&file};
  for (const ModelStudy& study : split_studies(files))
    for (const Experiment& experiment : experiments()) experiment.make(study, {});
}

class ResultsTarget : public FuzzTarget {
 public:
  std::string make(RandomStream& random) override {
    return mutated_hdf5(folder_.file("made.h5"), any_of(random, seeds_), random);
  }

  Outcome read(const std::string& input) override {
    const std::string path = folder_.write("r.h5", input);
    std::optional<ResultsFile> file;
    const Outcome outcome = outcome_of(path, [&] {
      file.emplace(path);
      check_file(*file);
    });
    // Of files that do not fit each other it tells by label.
    if (outcome == Outcome::accepted) outcome_of("", [&] { make_tables(*file); });
    return outcome;
  }

 private:
  ScratchFolder folder_;
  const std::vector<std::string> seeds_ = results_seeds(folder_);
};

}  // namespace

const TargetInfo kResultsTarget{"results", ".h5", 60, [] { return std::unique_ptr<FuzzTarget>(new ResultsTarget); }};

}  // namespace attest::fuzz
