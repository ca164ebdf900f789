// The argument RESULTS... of commands that read results files.
#pragma once

#include <string>
#include <vector>

#include "analysis/results/results_file.h"
#include "analysis/statistics/sample_cells.h"

namespace CLI {
class App;
}

namespace attest {

/// Takes the names of results files from the command line and opens the files. What open() returns points into this.
class ResultsArguments {
 public:
  ResultsArguments() = default;
  ResultsArguments(const ResultsArguments&) = delete;
  ResultsArguments& operator=(const ResultsArguments&) = delete;

  /// Adds the argument, of which there must be at least one. This must outlive the parsing. `more`: what else than
  /// results may be named, for the help.
  void add_to(CLI::App& command, const std::string& more = {});

  /// As typed.
  const std::vector<std::string>& paths() const { return paths_; }

  /// All files, in the order in which they were typed. Throws InputError.
  ResultsFiles open() { return open(paths_); }
  /// These files instead.
  ResultsFiles open(const std::vector<std::string>& paths);

 private:
  std::vector<std::string> paths_;
  std::vector<ResultsFile> files_;
  std::vector<const ResultsFile*> pointers_;  ///< to files_
};

}  // namespace attest
