// attest bench: its commands.
#include "experiments/commands/bench.h"

#include <CLI/CLI.hpp>

#include "experiments/commands/commands.h"

namespace attest {

void add_bench(CLI::App& app, const GlobalOptions& global) {
  CLI::App* bench = app.add_subcommand("bench", "Speed of the study and of decode kernels, results checked first");
  bench->require_subcommand(1);
  add_bench_study(*bench, global);
  add_bench_kernel(*bench, global);
}

}  // namespace attest
