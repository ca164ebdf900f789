// Sees to it that all units of a study come from the same input, also when it is resumed: by size and time of
// modification at once, by content before the results are written.
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
  /// Throws UsageError when `partial` was begun with inputs of another content, as far as that is known now. An input
  /// that was only touched or copied is hashed first to find out; all others are hashed while the study runs.
  InputGuard(std::vector<InputStatus> inputs, PartialResults& partial);

  /// Notes the hashes in `partial` once they are there; cheap, to be called now and then.
  void poll();

  /// The hashes, in the order of the inputs. Throws UsageError when they are not those that the study was begun with,
  /// InputError when an input has changed since the start, Interrupted when `stop` is set.
  std::vector<std::string> finish(const std::atomic<bool>& stop);

 private:
  void note(const std::vector<std::string>& hashes);

  std::vector<InputStatus> inputs_;
  PartialResults& partial_;
  std::vector<std::string> begun_with_;  ///< hashes of the first run, or empty
  bool noted_ = false;
  InputHashes hashes_;
};

}  // namespace attest
