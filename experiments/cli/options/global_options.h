// Options of all subcommands, accepted before or after the subcommand's name.
#pragma once

#include <cstdint>
#include <string>

#include "analysis/layer/device.h"
#include "analysis/run/launcher.h"
#include "experiments/cli/parse/command.h"

namespace attest {

struct GlobalOptions {
  std::string device = "auto";        ///< "auto", "cpu", "cuda", "cuda:<i>,<j>" or "cuda:all"
  std::string device_memory = "80%";  ///< limit of GPU memory: a share, or a size
  int threads = 0;                    ///< as given; 0: one per processor that this process may use
  std::uint64_t seed = 0;
  bool quiet = false;  ///< no progress and no notices on stderr; errors remain
  bool json = false;   ///< stdout carries one JSON document and nothing else

  /// `ranks`: null for a process by itself. Throws UsageError.
  Device resolved_device(const Launch* ranks = nullptr) const;
  int thread_count(const Launch* ranks = nullptr) const;  ///< `threads`, with 0 resolved; at least 1
};

/// Adds the options to the program, with --config (TOML) and --version. `options` must outlive `program`.
void add_global_options(Command& program, GlobalOptions& options);

}  // namespace attest
