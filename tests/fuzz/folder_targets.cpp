// What processes of one study say to each other in its folder: who they are, and which content they have read.
#include <atomic>

#include "analysis/results/folder_member.h"
#include "analysis/run/input_guard.h"
#include "dumps/base/json.h"
#include "tests/dumps/scratch_folder.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/json_mutation.h"

namespace attest::fuzz {
namespace {

/// The file of another process, as a lock.
class ProcessTarget : public FuzzTarget {
 public:
  ProcessTarget() : member_(folder_.file("")) {}

  std::string make(RandomStream& random) override {
    const ProcessIdentity here = ProcessIdentity::of_this_process();
    const bool local = random.below(4) == 0;
    const Json process{{"token", "0123456789abcdef"},
                       {"host", "node2"},
                       {"machine", local ? here.machine : "m"},
                       {"process", 12},
                       {"started", "1"}};
    return "00000000000000000007\n" + mutated_json(process, random) + "\n";
  }

  Outcome read(const std::string& input) override {
    folder_.write("lock-u", input);
    const std::optional<FolderProcess> holder = member_.holder("u");
    if (holder) require(holder->name().size() < 2000 && printable(holder->name()) == holder->name(), "a long name");
    if (member_.try_lock("u")) {
      const std::optional<FolderProcess> own = member_.holder("u");
      require(own && own->token == member_.self().token, "another one's lock");
      member_.unlock("u");
    }
    return holder ? Outcome::accepted : Outcome::refused;
  }

 private:
  ScratchFolder folder_;
  FolderMember member_;
};

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
    return outcome_of(input_, [&] { InputGuard(inputs_, partial_, hashes_, stop_).finish(); });
  }

 private:
  ScratchFolder folder_;
  std::string input_;
  PartialResults partial_;
  std::vector<InputStatus> inputs_;
  InputHashes hashes_;
  std::vector<std::string> known_;
  std::atomic<bool> stop_ = false;
};

}  // namespace

const TargetInfo kProcessTarget{"process", ".json", 5'000,
                                [] { return std::unique_ptr<FuzzTarget>(new ProcessTarget); }};
const TargetInfo kNoteTarget{"note", ".json", 5'000, [] { return std::unique_ptr<FuzzTarget>(new NoteTarget); }};

}  // namespace attest::fuzz
