// Sentences for command lines that do not parse.
#pragma once

#include <string>

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace attest {

/// What is wrong, in one sentence; for an unknown command or option with the nearest ones. `app` is the root command
/// after parsing has thrown `error`.
std::string explain(const CLI::App& app, const CLI::ParseError& error);

}  // namespace attest
