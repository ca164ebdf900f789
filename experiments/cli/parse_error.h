// Error messages for command lines that do not parse.
#pragma once

#include <string>

namespace CLI {
class App;
class Option;
class ParseError;
}  // namespace CLI

namespace attest {

/// One sentence on what is wrong; for an unknown command or option it lists the nearest known ones. `app` is the root
/// command after parsing has thrown `error`.
std::string explain(const CLI::App& app, const CLI::ParseError& error);

/// What the option's checks (checks.h) say of a value; empty if it is good.
std::string complaint_about(CLI::Option& option, std::string text);

}  // namespace attest
