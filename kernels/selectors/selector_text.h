// A selector as text, without a label: "NAME[:option=value,...]".
#pragma once

#include <string>
#include <string_view>

#include "kernels/selectors/options.h"

namespace attest {

/// Fills name and options. Returns what is wrong with the text; empty: nothing. make_selector checks the name and the
/// options.
std::string parse_selector_text(std::string_view text, SelectorSpec& out);

/// The text of the name and the options.
std::string selector_text(const SelectorSpec& spec);

}  // namespace attest
