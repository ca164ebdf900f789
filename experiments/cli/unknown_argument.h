// Error messages for command lines that do not parse.
#pragma once

#include <string>

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace attest {

/// One sentence on what is wrong; for an unknown command or option it lists the nearest known ones. `app` is the root
/// command after parsing has thrown `error`.
std::string explain(const CLI::App& app, const CLI::ParseError& error);

}  // namespace attest
