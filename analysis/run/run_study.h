// One study from dumps to a results file and its summary: what `attest run` does, without the command line around it.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "analysis/layer/device.h"
#include "analysis/run/stream_study.h"
#include "analysis/statistics/summary.h"
#include "analysis/study/study.h"

namespace attest {

/// Where and how a study runs, and what its manifest says of the program. Nothing here changes the data but `device`.
struct RunOptions {
  std::string output;
  bool resume = false;
  bool force = false;
  bool with_dense_layers = false;  ///< in the averages of the summary
  Device device;
  int threads = 1;
  std::string program, git_commit;  ///< version and commit
  std::vector<std::string> command_line;
};

struct RunReport {
  enum class How { computed, found_complete, completed_by_another_process };
  How how = How::computed;
  StudyProgress progress;
  std::string device;  ///< in words
  Summary summary;
};

/// Writes options.output, by way of the folder options.output + ".partial". Of `study`, dumps have their paths and the
/// choice says which cells are taken. Throws OutputError when the output exists without `force`, UsageError for what
/// does not fit together, InputError, Interrupted when `stop` is set.
RunReport run_study(Study study, RunOptions options, const std::atomic<bool>& stop, const StudyObserver& observer);

}  // namespace attest
