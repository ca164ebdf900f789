// tasks.json of unfinished task outcomes.
#include "analysis/outcomes/answer_table.h"
#include "dumps/base/json.h"
#include "tests/dumps/scratch_folder.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/json_mutation.h"

namespace attest::fuzz {
namespace {

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

}  // namespace attest::fuzz
