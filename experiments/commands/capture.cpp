// attest capture: the capture script, which has a command line of its own.
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
  command->callback([] { throw UsageError("expected 'capture' before its options, which are all its own"); });
}

void become_capture(const std::vector<std::string>& arguments) {
  become_script(python_interpreter(), "dumps/capture/capture.py", arguments);
}

}  // namespace attest
