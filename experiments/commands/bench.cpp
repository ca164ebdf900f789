// attest bench: its commands.
#include "experiments/commands/commands.h"

namespace attest {

void add_bench(Command& program, const GlobalOptions& global) {
  Command& bench = program.add_command(
      "bench", "Speed of the study, of decode kernels and of a decoding model, results checked first");
  bench.requires_command();
#define ATTEST_ADD(name) add_##name(bench, global);
  ATTEST_BENCH_COMMANDS(ATTEST_ADD)
#undef ATTEST_ADD
}

}  // namespace attest
