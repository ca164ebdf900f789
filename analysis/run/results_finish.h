// The end of a study: one of the processes that share it writes the results file.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "analysis/results/partial_results.h"
#include "analysis/run/input_guard.h"
#include "analysis/run/prepared_study.h"
#include "analysis/run/results_assembly.h"

namespace attest {

/// The process that first locks the results fills the file while all of them compute. Should it die, another one writes
/// the file at the end.
class ResultsFinish {
 public:
  using Notice = std::function<void(const std::string&)>;

  /// Locks the results if no other process has. All arguments must outlive this object.
  ResultsFinish(const PreparedStudy& run, PartialResults& partial);

  /// Whether this process has the lock: the file is being filled.
  bool fills() const { return locked_; }
  /// Units may come in any order, each once. Thread-safe.
  void add(const UnitKey& unit, const LayerResults& results) { assembly_.add(unit, results); }

  enum class Turn : std::uint8_t {
    write,      ///< call write()
    fill,       ///< the process that filled the file is gone: add_to_file() all units, then write()
    completed,  ///< another process has written the results
  };
  /// Waits, once all units are stored. `notice` is told for whom. Throws Interrupted if `stop` is set.
  Turn wait_for_turn(const std::atomic<bool>& stop, const Notice& notice);
  void add_to_file(const LayerResults& results) { assembly_.write(results); }

  /// Waits for the hashes of the inputs, gives the file its name, and removes the folder. `device` for the manifest.
  /// Throws what InputGuard::finish() throws, and OutputError.
  void write(const std::string& device, InputGuard& inputs, const Notice& notice);

  bool complete() const { return assembly_.complete(); }
  Summary summary() const { return assembly_.summary(); }

 private:
  const PreparedStudy& run_;
  PartialResults& partial_;
  bool locked_ = false;
  ResultsAssembly assembly_;
};

}  // namespace attest
