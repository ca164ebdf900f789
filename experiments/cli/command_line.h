// The command line of this process, for records of what was run.
#pragma once

#include <string>
#include <vector>

namespace attest {

/// The program's name and its arguments.
std::vector<std::string> command_line();

}  // namespace attest
