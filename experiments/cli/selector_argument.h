// Parses the argument of --selector.
#pragma once

#include <string_view>

#include "kernels/selectors/options.h"

namespace attest {

/// Parses "[LABEL=]NAME[:option=value,...]". The default label is the text as typed. Throws UsageError for other text,
/// or for a label that cannot name a group of a results file. make_selector checks the name and the options.
SelectorSpec parse_selector(std::string_view text);

}  // namespace attest
