// Runs a Python script of dumps/ in place of this process, for subcommands that need libraries of Python.
#pragma once

#include <string>
#include <vector>

namespace attest {

/// Replaces this process by `script`, a path relative to the root of the sources: from here on, exit status, output and
/// Ctrl-C are the script's. Throws OutputError when `interpreter` or the script is missing.
[[noreturn]] void exec_script(const std::string& interpreter, const std::string& script,
                              const std::vector<std::string>& arguments);

}  // namespace attest
