// The end of a study: one of the processes that share it writes the results file.
#pragma once

#include <atomic>
#include <optional>
#include <string>

#include "analysis/results/partial_results.h"
#include "analysis/run/results_assembly.h"

namespace attest {

/// The process that first claims the right to write the file fills it while all of them compute. Should it die, another
/// one writes the file at the end.
class ResultsFinish {
 public:
  /// Claims that right if no other process has it. All arguments but `output` must outlive this object.
  ResultsFinish(const Study& study, const StudyPlan& plan, bool with_dense_layers, PartialResults& partial,
                const std::string& output);

  /// Units may come in any order, each once. Thread-safe.
  void add(const UnitKey& unit, const LayerResults& results) { assembly_.add(unit, results); }

  /// Whether another process has written the results and removed the folder of partial results.
  bool done_by_another() const { return !claim_ && !partial_.in_place(); }

  /// Waits, once all units are stored, until this process has the right to write or another one has written. Returns
  /// whether this process is to finish assembly(). Throws Interrupted if `stop` is set.
  bool wait_to_write(const std::atomic<bool>& stop);

  ResultsAssembly& assembly() { return assembly_; }

 private:
  const StudyPlan& plan_;
  PartialResults& partial_;
  const std::string output_;
  std::optional<UnitClaim> claim_;
  ResultsAssembly assembly_;
};

}  // namespace attest
