// What makes the tables of the paper's figures from results files. It takes most of the program.
#include <optional>
#include <span>

#include "analysis/results/results_file.h"
#include "dumps/base/content_hash.h"
#include "experiments/figures/figures.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/hdf5_mutation.h"
#include "tests/fuzz/results_seeds.h"

namespace attest::fuzz {
namespace {

/// Of a fourth of the figures: which, the input decides.
void make_tables(const ResultsFile& file, std::uint64_t number) {
  const ResultsFile* const files[]{&file};
  for (const ModelStudy& study : split_studies(files, 1))
    for (const Experiment& experiment : experiments())
      if (number++ % 4 == 0) experiment.make(study, ExperimentOptions());
}

class FiguresTarget : public FuzzTarget {
 public:
  std::string make(RandomStream& random) override {
    return mutated_hdf5(folder_.file("made.h5"), any_of(random, seeds_), random);
  }

  Outcome read(const std::string& input) override {
    const std::string path = folder_.write("r.h5", input);
    std::optional<ResultsFile> file;
    const Outcome outcome = outcome_of(path, [&] { file.emplace(path); });
    // Of files that do not fit each other it tells by label.
    return outcome == Outcome::accepted
               ? outcome_of("", [&] { make_tables(*file, hash_of(std::as_bytes(std::span(input)))); })
               : outcome;
  }

 private:
  ScratchFolder folder_;
  const std::vector<std::string> seeds_ = results_seeds(folder_);
};

}  // namespace

const TargetInfo kFiguresTarget{"figures", ".h5", 200, [] { return std::unique_ptr<FuzzTarget>(new FiguresTarget); }};

}  // namespace attest::fuzz
