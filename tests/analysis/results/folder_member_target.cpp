// What processes of one study say to each other in its folder: who they are.
#include "analysis/results/folder_member.h"
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

}  // namespace

const TargetInfo kProcessTarget{"process", ".json", 5'000,
                                [] { return std::unique_ptr<FuzzTarget>(new ProcessTarget); }};

}  // namespace attest::fuzz
