// Which of how many processes this one is, as its launcher says in the environment: torchrun, Open MPI, PMIx or Slurm.
// It chooses the GPU, the threads and the prefix of lines; all that processes share is the folder of the study.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace attest {

struct Launch {
  std::string launcher;  ///< "torchrun", "RANK and WORLD_SIZE", "Open MPI", "PMIx", "Slurm"
  int rank = 0, world = 1;
  int local_rank = 0, local_world = 1;  ///< on this machine
};

/// The value of a variable; empty if it is not set.
using EnvironmentReader = std::function<std::optional<std::string>(const char* name)>;
std::optional<std::string> process_environment(const char* name);

/// Empty for a process by itself: no launcher, or a single rank. Throws UsageError for variables that are missing,
/// contradict each other or are no numbers.
std::optional<Launch> read_launch(const EnvironmentReader& read = process_environment);

}  // namespace attest
