// The study that `attest validate` and `attest monitor` need when they are given dumps.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "experiments/cli/options/global_options.h"
#include "experiments/validation/judge_results.h"
#include "kernels/selectors/options.h"

namespace attest {

struct DumpStudyOptions {
  std::string results, samples;  ///< the results file to keep; names of samples
  std::string queries = "all";
  std::uint64_t allowed_memory = 0;
  bool force = false;
  std::vector<std::string> inputs, outputs{};  ///< of the command besides: none is to be the other, or the results

  bool is_default() const { return results.empty() && samples.empty() && queries == "all" && allowed_memory == 0; }
};

void add_dump_study_options(Command& command, DumpStudyOptions& options);

/// Throws UsageError if one of these options is given with results, which are studied already.
void refuse_study_options(const DumpStudyOptions& options);

/// The files that `attest validate` and `attest monitor` are given.
struct JudgedInputs {
  std::vector<std::string> dumps, results, tasks;
};

/// Sorts files by what they say that they are; a file that says nothing counts as a dump. Throws UsageError where dumps
/// stand beside results.
JudgedInputs split_judged_inputs(const std::vector<std::string>& paths);

/// Studies the selectors at the grid of the request and at its setting, and returns the name of the results file:
/// options.results, else one named after `recommendation`, else after the first dump. A study that was interrupted goes
/// on, and a finished one is used again; options.force replaces only another study. Throws what run_study() throws.
std::string study_dumps(const std::vector<std::string>& dumps, const std::vector<SelectorSpec>& selectors,
                        const JudgementOptions& request, const DumpStudyOptions& options,
                        const std::string& recommendation, const GlobalOptions& global);

}  // namespace attest
