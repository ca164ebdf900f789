// Runs a study from dumps to a results file and its summary: `attest run` without its command line.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analysis/layer/device.h"
#include "analysis/run/study_tally.h"
#include "analysis/statistics/summary.h"
#include "analysis/study/head_weights.h"
#include "analysis/study/study.h"

namespace attest {

/// Where and how a study runs, and the program version for its manifest. Only `device` and `weights` affect the data.
struct RunOptions {
  std::string output;
  bool resume = false;
  bool force = false;
  std::uint64_t allowed_memory = 0;      ///< of a layer and its results; 0: DumpReader's default
  bool with_dense_layers = false;        ///< include dense layers in the averages of the summary
  std::optional<HeadWeights> weights{};  ///< of layers without head gradients
  std::vector<std::string> inputs{};     ///< files that the command reads besides dumps and those of selectors
  Device device;
  /// Chooses `device`, if given, on another thread: finding GPUs takes long, and the last dump is opened meanwhile.
  std::function<Device()> choose_device{};
  int threads = 1;
  std::string program, git_commit;  ///< version and commit
  std::vector<std::string> command_line;
  struct Chunk {
    std::vector<std::pair<int, int>> units;  ///< inclusive ranges of places in the plan, to kOpenEnd at most
    std::string file;
  };
  std::optional<Chunk> chunk;                    ///< instead of `output`: only these units, to a file
  std::optional<std::vector<std::string>> take;  ///< a ChunkList: nothing is computed, it is added to the study
  std::string resume_advice = "the same command with --resume goes on";  ///< where a study has stopped
  int processes = 1;  ///< as a launcher says: if this one stays alone, the folder may not be shared
  /// Sentences about the study. Of the processes that share it, the one that writes the results says them and others.
  std::vector<std::string> notices;
};

struct RunReport {
  /// wrote_chunk: of options.chunk. unfinished: of options.take, if units are missing.
  enum class Outcome { computed, found_complete, completed_by_another_process, wrote_chunk, unfinished };
  Outcome outcome = Outcome::computed;
  StudyProgress progress;
  std::string device;  ///< for instance "CPU, 2 threads"
  Summary summary{};
  std::size_t units = 0;               ///< of the study
  std::vector<std::size_t> missing{};  ///< of `unfinished`: places in the plan
};

/// "interrupted with 3 of 24 layers finished; " and RunOptions::resume_advice.
std::string interrupted_text(std::size_t finished, std::size_t total, std::string_view resume_advice);

/// Writes options.output; finished units are kept in PartialResults::folder_of(options.output) until then. Of
/// study.dumps only the paths are used; study.choice selects samples, layers and queries. Throws OutputError if the
/// output exists and `force` is not set, UsageError for incompatible options, InputError, Interrupted if `stop` is set.
RunReport run_study(Study study, RunOptions options, const std::atomic<bool>& stop, const StudyObserver& observer);

}  // namespace attest
