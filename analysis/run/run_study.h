// Runs a study from dumps to a results file and its summary: `attest run` without its command line.
#pragma once

#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "analysis/layer/device.h"
#include "analysis/ranks/rank_environment.h"
#include "analysis/run/study_tally.h"
#include "analysis/statistics/summary.h"
#include "analysis/study/study.h"

namespace attest {

/// How a process takes part in a study as one of several ranks.
struct RankOptions {
  RankEnvironment environment;
  std::chrono::milliseconds lease{10000};  ///< a rank that is silent for longer loses its units
  bool send_results = false;               ///< finished units go to rank 0 through the store, not into its folder
};

/// Where and how a study runs, and the program version for its manifest. Only `device` affects the computed data.
struct RunOptions {
  std::string output;
  bool resume = false;
  bool force = false;
  std::uint64_t allowed_memory = 0;  ///< of a layer and its results; 0: DumpReader's default
  bool with_dense_layers = false;    ///< include dense layers in the averages of the summary
  Device device;
  int threads = 1;
  std::string program, git_commit;  ///< version and commit
  std::vector<std::string> command_line;
  std::optional<RankOptions> ranks;  ///< empty: a process by itself, or several with a folder and file locks in common
};

struct RunReport {
  /// led_by_rank_0: this rank has done its part, and rank 0 has the results.
  enum class Outcome { computed, found_complete, completed_by_another_process, led_by_rank_0 };
  Outcome outcome = Outcome::computed;
  StudyProgress progress;
  std::string device;  ///< for instance "CPU, 2 threads"
  Summary summary;
};

/// Writes options.output; finished units are kept in PartialResults::folder_of(options.output) until then. Of
/// study.dumps only the paths are used; study.choice selects samples, layers and queries. Throws OutputError if the
/// output exists and `force` is not set, UsageError for incompatible options, InputError, Interrupted if `stop` is set.
RunReport run_study(Study study, RunOptions options, const std::atomic<bool>& stop, const StudyObserver& observer);

}  // namespace attest
