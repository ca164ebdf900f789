// attest prompts: runs the script that makes prompts, which parses its own command line.
#include "experiments/cli/process/python_module.h"
#include "experiments/cli/process/version.h"
#include "experiments/commands/commands.h"

namespace attest {

void add_prompts(Command& program, const GlobalOptions&) {
  program.add_command("prompts", "Prompts of retrieval tasks for a model's tokenizer ('attest prompts --help')")
      .hands_over(
          [](const std::vector<std::string>& words) { exec_module(python_interpreter(), "attest.prompts", words); });
}

}  // namespace attest
