// The subcommands, each in a file of the same name with an options struct, a set-up function (declared here) and a run
// function.
#pragma once

#include <string>
#include <vector>

#include "experiments/cli/global_options.h"

namespace CLI {
class App;
}

namespace attest {

// Each function adds its subcommand to `app`. CLI11 calls the run function while it parses, and main maps the
// exceptions of the run function to exit codes. `global` is filled by then and outlives the call.
void add_inspect(CLI::App& app, const GlobalOptions& global);
void add_synth(CLI::App& app, const GlobalOptions& global);
void add_import(CLI::App& app, const GlobalOptions& global);
void add_capture(CLI::App& app, const GlobalOptions& global);
void add_run(CLI::App& app, const GlobalOptions& global);
void add_tasks(CLI::App& app, const GlobalOptions& global);
void add_list(CLI::App& app, const GlobalOptions& global);
void add_figures(CLI::App& app, const GlobalOptions& global);
void add_claims(CLI::App& app, const GlobalOptions& global);
void add_table(CLI::App& app, const GlobalOptions& global);
void add_compare(CLI::App& app, const GlobalOptions& global);
void add_report(CLI::App& app, const GlobalOptions& global);
void add_validate(CLI::App& app, const GlobalOptions& global);
void add_bench(CLI::App& app, const GlobalOptions& global);
void add_demo(CLI::App& app, const GlobalOptions& global);

/// Runs 'attest capture' with unparsed `arguments`: CLI11 would take the script's options for its own.
[[noreturn]] void exec_capture_script(const std::vector<std::string>& arguments);

}  // namespace attest
