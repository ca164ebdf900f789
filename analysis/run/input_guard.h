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
  /// Throws UsageError if an input is known to differ from the one that `partial` was begun with. An input whose
  /// modification time has changed is hashed here and compared; all others are hashed while the study runs.
  InputGuard(std::vector<InputStatus> inputs, PartialResults& partial);

  /// Stores the hashes in `partial` once they are known. Cheap; call it from time to time.
  void poll();

  /// Waits for the hashes and returns them in the order of the inputs. Throws UsageError if they differ from those that
  /// the study was begun with, InputError if an input has changed since the start, Interrupted if `stop` is set.
  std::vector<std::string> finish(const std::atomic<bool>& stop);

 private:
  void note(const std::vector<std::string>& hashes);

  std::vector<InputStatus> inputs_;
  PartialResults& partial_;
  std::vector<std::string> begun_with_;  ///< hashes of the first run; "" where not known
  bool noted_ = false;
  InputHashes hashes_;
};

}  // namespace attest
