// Ensures that all units of a study, also of a resumed or shared one, are computed from inputs of the same content.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "analysis/results/partial_results.h"
#include "analysis/run/input_hashes.h"

namespace attest {

/// The description of the study has a hash of parts of each input, which is compared before a process joins. Units have
/// the hashes of the blocks that they were computed from, which InputHashes compares. This compares the hashes of whole
/// files: the first process that knows them leaves a note in the folder.
class InputGuard {
 public:
  /// `hashes`: those of `inputs`, which may still be under way; of small inputs it waits for them. Throws InputError if
  /// an input is known to differ from the one that `partial` was begun with.
  InputGuard(std::vector<InputStatus> inputs, const PartialResults& partial, InputHashes& hashes,
             const std::atomic<bool>& stop);

  /// Stores the hashes in `partial` or compares them, once they are known. Cheap; call it from time to time.
  void poll();

  /// Waits for the hashes and returns them in the order of the inputs. Throws InputError if they differ from those that
  /// another process has found, or if an input has changed since the start; Interrupted if told to stop.
  std::vector<std::string> finish();

 private:
  void compare_or_note(const std::vector<std::string>& hashes);

  const std::vector<InputStatus> inputs_;
  const PartialResults& partial_;
  InputHashes& hashes_;
  const std::atomic<bool>& stop_;
  bool compared_ = false;
};

}  // namespace attest
