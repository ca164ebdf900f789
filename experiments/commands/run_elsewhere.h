// attest run --dask, --mpi and --slurm: the Python package shares the study among the workers of an engine.
#pragma once

#include <string>

#include "experiments/cli/options/global_options.h"
#include "experiments/cli/parse/command.h"

namespace attest {

/// Options of `attest run`; at most one is given.
struct Elsewhere {
  std::string dask, slurm;
  bool mpi = false;
};

void add_elsewhere_options(Command& command, Elsewhere& elsewhere);

/// Whether the study goes elsewhere. Throws UsageError if two ways are given.
bool is_elsewhere(const Elsewhere& elsewhere);

/// Replaces this process by attest.cluster, which starts this program for chunks of the study. `command` is `attest
/// run` as it was given.
[[noreturn]] void run_elsewhere(const Elsewhere& elsewhere, const Command& command, const std::string& output,
                                const GlobalOptions& global);

}  // namespace attest
