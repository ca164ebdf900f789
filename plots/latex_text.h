// Text for LaTeX.
#pragma once

#include <string>

namespace attest {

/// Characters with a meaning are escaped, and Greek letters and signs that the programs use are written as commands.
std::string latex_text(const std::string& text);

}  // namespace attest
