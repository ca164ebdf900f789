// What begins each line on stderr of a process that is one of several ranks: "[rank 3] ".
#pragma once

#include <string>

namespace attest {

/// Empty unless it was set. Set it before other threads write.
const std::string& line_prefix();
void set_line_prefix(const std::string& prefix);

}  // namespace attest
