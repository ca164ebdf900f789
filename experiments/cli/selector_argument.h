// The argument of --selector.
#pragma once

#include <string_view>

#include "kernels/selectors/options.h"

namespace attest {

/// Parses "[LABEL=]NAME[:option=value,...]". The label defaults to what was typed. Throws UsageError for a label that
/// cannot name a group of a results file, or for text of another form; names and options are left to make_selector.
SelectorSpec parse_selector(std::string_view text);

}  // namespace attest
