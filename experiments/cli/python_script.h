// Scripts of dumps/ that subcommands become: the libraries of their formats are Python's.
#pragma once

#include <string>
#include <vector>

namespace attest {

/// Becomes `script`, a path from the root of the sources: exit status, output and Ctrl-C are the script's from here on.
/// Throws OutputError when `interpreter` or the script is not there.
[[noreturn]] void become_script(const std::string& interpreter, const std::string& script,
                                const std::vector<std::string>& arguments);

}  // namespace attest
