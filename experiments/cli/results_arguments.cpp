// Opens results files.
#include "experiments/cli/results_arguments.h"

#include <CLI/CLI.hpp>

namespace attest {

void ResultsArguments::add_to(CLI::App& command, const std::string& more) {
  command.add_option("RESULTS", paths_, "Results files of `attest run`; those of one model are pooled" + more)
      ->required();
}

ResultsFiles ResultsArguments::open(const std::vector<std::string>& paths) {
  files_.clear();
  pointers_.clear();
  files_.reserve(paths.size());
  for (const std::string& path : paths) pointers_.push_back(&files_.emplace_back(path));
  return pointers_;
}

}  // namespace attest
