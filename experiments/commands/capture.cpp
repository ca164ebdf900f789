// attest capture: runs the capture script, which parses its own command line.
#include "experiments/cli/process/python_module.h"
#include "experiments/cli/process/version.h"
#include "experiments/commands/commands.h"

namespace attest {

void add_capture(Command& program, const GlobalOptions&) {
  program.add_command("capture", "Dump from a Hugging Face model ('attest capture --help')")
      .hands_over(
          [](const std::vector<std::string>& words) { exec_module(python_interpreter(), "attest.capture", words); });
}

}  // namespace attest
