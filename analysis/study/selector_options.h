// Options of a selector as files have them, and whether two files mean the same.
#pragma once

#include <map>
#include <string>

namespace attest {

using SelectorOptions = std::map<std::string, std::string>;

/// Of a JSON object of texts. Empty if the text is none.
SelectorOptions selector_options(const std::string& json);

/// With the defaults of the others; `given` alone where this program cannot make the selector (a file that it reads is
/// elsewhere, a newer option).
SelectorOptions completed_options(const std::string& selector, const SelectorOptions& given);

/// Whether results with the options `studied` are of the selector that was `given` so, which is `completed` with
/// defaults. Results have every option with its value. An option that their program did not know yet has its default.
bool same_options(const SelectorOptions& studied, const SelectorOptions& given, const SelectorOptions& completed);

/// Whether two JSON objects of options are of the same selector. One that either lacks, or has as "", has its default.
bool same_options(const std::string& selector, const std::string& one, const std::string& other);

}  // namespace attest
