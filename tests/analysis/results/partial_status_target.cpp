// study.json, which describes an unfinished study: to resume it, and to say how far it is.
#include <filesystem>

#include "analysis/results/partial_results.h"
#include "analysis/results/partial_status.h"
#include "dumps/base/json.h"
#include "tests/dumps/scratch_folder.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/json_mutation.h"

namespace attest::fuzz {
namespace {

Json study() {
  return parse_json(R"({
      "program": "1.0",
      "git_commit": "abc",
      "device": "cpu",
      "selectors": [{"label": "ffd", "options": {"bits": "2"}, "settings": [5, 7]}],
      "dumps": [{"path": "/a.h5", "samples": [{"name": "s", "layers": [0, 2]}, {"name": "t", "layers": [1]}]}]})");
}

Json document() {
  return {{"format", "attention-study-partial"},
          {"format_version", 1},
          {"begun", "2025-01-02T03:04:05Z"},
          {"study", study()}};
}

class StudyTarget : public FuzzTarget {
 public:
  StudyTarget() : path_(folder_.file("r.partial")) {
    PartialResults(path_, PartialResults::Start::fresh, study().dump(), nullptr);
    folder_.write("r.partial/unit-0-0-2.bin", "");
    folder_.write("r.partial/unit-7-0-2.bin", "");
  }

  std::string make(RandomStream& random) override {
    return random.below(256) == 0 ? "" : mutated_json(document(), random);
  }

  Outcome read(const std::string& input) override {
    const std::string file = folder_.write("r.partial/study.json", input);
    if (input.empty()) {  // no file at all
      std::filesystem::remove(file);
      return outcome_of(path_, [&] { read_partial_status(path_); });
    }
    const Outcome resumed = outcome_of(path_, [&] {
      const PartialResults partial(path_, PartialResults::Start::resume, study().dump(), nullptr);
      require(parsed_json(Json(partial.start_time()).dump()).has_value(), "a start time that JSON cannot hold");
    });
    const Outcome told = outcome_of(path_, [&] {
      const PartialStatus status = read_partial_status(path_);
      require(status.num_finished() <= status.num_layers(), "more layers finished than there are");
    });
    return resumed == Outcome::accepted && told == Outcome::accepted ? Outcome::accepted : Outcome::refused;
  }

 private:
  ScratchFolder folder_;
  std::string path_;
};

}  // namespace

const TargetInfo kStudyTarget{"study", ".json", 2'000, [] { return std::unique_ptr<FuzzTarget>(new StudyTarget); }};

}  // namespace attest::fuzz
