// The argument RESULTS... of commands that read results files, and what else may stand among them.
#pragma once

#include <string>
#include <vector>

#include "analysis/results/results_file.h"
#include "analysis/statistics/sample_cells.h"
#include "experiments/cli/options/global_options.h"
#include "experiments/cli/parse/command.h"

namespace attest {

/// Takes the names of results files from the command line and opens the files. What open() returns points into this.
class ResultsArguments {
 public:
  ResultsArguments() = default;
  ResultsArguments(const ResultsArguments&) = delete;
  ResultsArguments& operator=(const ResultsArguments&) = delete;

  /// Adds the argument, of which there must be at least one. This must outlive the parsing. `more`: what else than
  /// results may be named, for the help.
  void add_to(Command& command, const std::string& more = {});

  /// The names as typed.
  const std::vector<std::string>& paths() const { return paths_; }

  /// Opens all files, in the order in which they were typed. Throws InputError.
  ResultsFiles open() { return open(paths_); }
  /// Opens these files instead.
  ResultsFiles open(const std::vector<std::string>& paths);

 private:
  std::vector<std::string> paths_;
  std::vector<ResultsFile> files_;
  std::vector<const ResultsFile*> pointers_;  ///< to files_
};

/// Warns of models of different shapes that have one name in these files: they would be pooled as one model.
void warn_of_mixed_models(const ResultsFiles& files, const GlobalOptions& global);

/// A part of the argument's help.
inline constexpr const char* kOthersToo =
    ". Files of `attest bench kernel`, `attest bench model` and `attest tasks` may stand among them";

struct FigureInputs {
  std::vector<std::string> results, benches, tasks;
};

/// JSON, by name (.json) or by first character ({), is a bench; HDF5 that says that it is answers to tasks is that.
/// Other files, and what is no file, are results, whose reader says what is wrong.
FigureInputs split_inputs(const std::vector<std::string>& paths);

}  // namespace attest
