// study.json, which describes an unfinished study: to resume it, and to say how far it is. tasks.json of unfinished
// task outcomes.
#include "analysis/outcomes/answer_table.h"
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

  std::string make(RandomStream& random) override { return mutated_json(document(), random); }

  Outcome read(const std::string& input) override {
    folder_.write("r.partial/study.json", input);
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

class AnswersTarget : public FuzzTarget {
 public:
  AnswersTarget() {
    for (const char* name : {"t.partial/prompt-0.json", "t.partial/prompt-x.json"}) folder_.write(name, "");
  }

  std::string make(RandomStream& random) override {
    const Json made{{"tasks", Json::array({"kv", "mk"})}, {"context", Json::array({500, 1000})}, {"prompts", 4}};
    const Json what{{"program", {{"version", "1.2"}}},
                    {"model", {{"called", "tiny"}}},
                    {"prompts", random.below(4) == 0 ? Json{{"file", "p.jsonl"}} : made}};
    return mutated_json({{"what", what}, {"record", {{"created", "2025-01-02T03:04:05Z"}}}}, random);
  }

  Outcome read(const std::string& input) override {
    folder_.write("t.partial/tasks.json", input);
    const std::string folder = folder_.file("t.partial");
    return outcome_of(folder, [&] {
      const UnfinishedAnswers found = read_unfinished_answers(folder);
      require(found.finished == 1 && (!found.prompts || *found.prompts >= 0), "a count of prompts");
    });
  }

 private:
  ScratchFolder folder_;
};

}  // namespace

const TargetInfo kAnswersTarget{"answers", ".json", 3'000,
                                [] { return std::unique_ptr<FuzzTarget>(new AnswersTarget); }};
const TargetInfo kStudyTarget{"study", ".json", 2'000, [] { return std::unique_ptr<FuzzTarget>(new StudyTarget); }};

}  // namespace attest::fuzz
