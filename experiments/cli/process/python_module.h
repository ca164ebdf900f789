// Runs a module of the Python package (experiments/python/attest) in place of this process, for subcommands that need
// libraries of Python.
#pragma once

#include <string>
#include <vector>

#include "dumps/base/json.h"

namespace attest {

/// Replaces this process by `interpreter -m module`, such as attest.capture: from here on, exit status, output and
/// Ctrl-C are the module's. Throws OutputError when the interpreter or the package is missing.
[[noreturn]] void exec_module(const std::string& interpreter, const std::string& module,
                              const std::vector<std::string>& arguments);

/// A request as an argument of a module, which reads it with json.loads(). Texts may be paths, which need not be UTF-8:
/// the module has them as Python has its own arguments.
std::string request_text(const Json& request);

/// What a module notes in its files: `command`, as text, `version` and `git_commit`.
Json provenance();

/// Makes modules load the operator library (analysis/torch_ops) of this build, unless the environment names one.
void name_operator_library();

}  // namespace attest
