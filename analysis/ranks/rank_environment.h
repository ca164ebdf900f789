// Which rank of how many this process is, as its launcher says in the environment: torchrun, Open MPI, PMIx or Slurm.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace attest {

struct RankEnvironment {
  std::string launcher;  ///< "torchrun", "RANK and WORLD_SIZE", "Open MPI", "PMIx", "Slurm"
  int rank = 0, world = 1;
  int local_rank = 0, local_world = 1;  ///< on this machine
  /// The same for all ranks of a job. The next attempt after a failure may have the same name.
  std::string job;
  std::string store_host;
  int store_port = 0;
  bool store_is_there = false;  ///< the launcher has started it; else rank 0 does
};

/// The value of a variable; empty if it is not set.
using EnvironmentReader = std::function<std::optional<std::string>(const char* name)>;
std::optional<std::string> process_environment(const char* name);

/// Empty for a process by itself: no launcher, or a single rank. Throws UsageError for variables that are missing,
/// contradict each other or are no numbers, and if no address for the store follows from them.
std::optional<RankEnvironment> read_rank_environment(const EnvironmentReader& read = process_environment);

}  // namespace attest
