// attest capture: runs the capture script, which parses its own command line.
#include <CLI/CLI.hpp>

#include "dumps/base/error.h"
#include "experiments/cli/python_script.h"
#include "experiments/cli/version.h"
#include "experiments/commands/commands.h"

namespace attest {

void add_capture(CLI::App& app, const GlobalOptions&) {
  CLI::App* command = app.add_subcommand("capture", "Dump from a Hugging Face model ('attest capture --help')");
  command->set_help_flag();
  command->allow_extras()->fallthrough(false);
  command->callback(
      [] { throw UsageError("expected 'capture' before its options; it takes none of the common ones"); });
}

void exec_capture_script(const std::vector<std::string>& arguments) {
  exec_script(python_interpreter(), "dumps/capture/capture.py", arguments);
}

}  // namespace attest
