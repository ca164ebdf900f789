// Ensures that all units of a study, also of a resumed one, are computed from the same inputs. Size and modification
// time are compared at the start, content hashes before the results are written.
#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <vector>

#include "analysis/results/partial_results.h"
#include "analysis/run/input_hashes.h"

namespace attest {

class InputGuard {
 public:
  /// `hashes`: those of `inputs`, which may still be under way. Throws UsageError if an input is known to differ from
  /// the one that `partial` was begun with. If the modification time of an input has changed, waits for the hashes;
  /// all others are compared while the study runs. Throws Interrupted if `stop` is set.
  InputGuard(std::vector<InputStatus> inputs, PartialResults& partial, InputHashes& hashes,
             const std::atomic<bool>& stop);

  /// Stores the hashes in `partial` once they are known. Cheap; call it from time to time.
  void poll();

  /// Waits for the hashes and returns them in the order of the inputs. Throws UsageError if they differ from those that
  /// the study was begun with, InputError if an input has changed since the start, Interrupted if told to stop.
  std::vector<std::string> finish();

 private:
  void note(const std::vector<std::string>& hashes);
  const std::vector<std::string>& wait_for_hashes();
  std::vector<std::string> check_against_note();

  const std::vector<InputStatus> inputs_;
  PartialResults& partial_;
  InputHashes& hashes_;
  const std::atomic<bool>& stop_;
  std::vector<std::string> begun_with_;  ///< hashes of the first run; "" where not known
  bool noted_ = false;
};

}  // namespace attest
