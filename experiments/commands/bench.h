// The commands of attest bench, a file each.
#pragma once

#include "experiments/cli/global_options.h"

namespace CLI {
class App;
}

namespace attest {

void add_bench_study(CLI::App& bench, const GlobalOptions& global);
void add_bench_kernel(CLI::App& bench, const GlobalOptions& global);

}  // namespace attest
