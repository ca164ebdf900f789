// The subcommands, each in a file of its name with an options struct, a set-up function (declared here) and a run
// function. To add one: its name in a list below, and its file.
#pragma once

#include "experiments/cli/options/global_options.h"

/// In the order of `attest --help`.
#define ATTEST_COMMANDS(one)                                                                                          \
  one(inspect) one(synth) one(import) one(prompts) one(capture) one(audit) one(run) one(tasks) one(list) one(figures) \
      one(report) one(weights) one(table) one(compare) one(claims) one(validate) one(monitor) one(bench) one(demo)

/// Of `attest bench`.
#define ATTEST_BENCH_COMMANDS(one) one(bench_study) one(bench_kernel) one(bench_model)

namespace attest {

// Each function adds its subcommand to `program`. `global` is filled when its run function is called, and outlives the
// call; main maps what that throws to exit codes.
#define ATTEST_DECLARE(name) void add_##name(Command& program, const GlobalOptions& global);
ATTEST_COMMANDS(ATTEST_DECLARE)
ATTEST_BENCH_COMMANDS(ATTEST_DECLARE)
#undef ATTEST_DECLARE

}  // namespace attest
