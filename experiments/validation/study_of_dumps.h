// The study that `attest validate` needs when it is given dumps.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "experiments/cli/options/global_options.h"
#include "experiments/validation/judge_results.h"

namespace attest {

struct DumpStudyOptions {
  std::string results, samples;  ///< the results file to keep; names of samples
  std::string queries = "all";
  std::uint64_t allowed_memory = 0;
  bool force = false;

  bool is_default() const { return results.empty() && samples.empty() && queries == "all" && allowed_memory == 0; }
};

void add_dump_study_options(Command& command, DumpStudyOptions& options);

/// Studies the `selectors` (none: ffd) at the grid of the request and at its setting, and returns the name of the
/// results file: options.results, else one named after `recommendation`, else after the first dump. A study that was
/// interrupted goes on; a finished one is used again. Throws what run_study() throws.
std::string study_dumps(const std::vector<std::string>& dumps, const std::vector<std::string>& selectors,
                        const JudgementOptions& request, const DumpStudyOptions& options,
                        const std::string& recommendation, const GlobalOptions& global);

}  // namespace attest
