// What processes of one study say to each other in its folder: which content they have read.
#include <atomic>

#include "analysis/run/input_guard.h"
#include "dumps/base/json.h"
#include "tests/dumps/scratch_folder.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/json_mutation.h"

namespace attest::fuzz {
namespace {

/// The note with the hashes of the inputs. Accepted is one that agrees, or that counts as missing.
class NoteTarget : public FuzzTarget {
 public:
  NoteTarget()
      : input_(folder_.write("a.h5", "content")),
        partial_(folder_.file("r.partial"), PartialResults::Start::fresh, "{}"),
        inputs_{input_status(input_)},
        hashes_(inputs_, 1),
        known_(*hashes_.wait(std::chrono::seconds(10))) {}

  std::string make(RandomStream& random) override {
    return mutated_json({{"by", "process 12 on 'node2'"}, {kContentHashName, known_}}, random);
  }

  Outcome read(const std::string& input) override {
    folder_.write("r.partial/note-inputs.json", input);
    std::vector<InputStatus> inputs = inputs_;
    if (input.size() % kOneChangedOf == 0) ++inputs[0].bytes;
    return outcome_of(input_, [&] { InputGuard(inputs, partial_, hashes_, stop_).finish(); });
  }

 private:
  static constexpr std::size_t kOneChangedOf = 64;

  ScratchFolder folder_;
  std::string input_;
  PartialResults partial_;
  std::vector<InputStatus> inputs_;
  InputHashes hashes_;
  std::vector<std::string> known_;
  std::atomic<bool> stop_ = false;
};

}  // namespace

const TargetInfo kNoteTarget{"note", ".json", 5'000, [] { return std::unique_ptr<FuzzTarget>(new NoteTarget); }};

}  // namespace attest::fuzz
