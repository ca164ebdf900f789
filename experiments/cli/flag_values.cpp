// Looks for --FLAG=VALUE on the command line.
#include "experiments/cli/flag_values.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <string>

#include "dumps/base/error.h"

namespace attest {
namespace {

/// The subcommand of that name, or null.
CLI::App* subcommand(CLI::App& app, const std::string& name) {
  for (CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    if (command->get_name() == name) return command;
  return nullptr;
}

/// The option of the command or of those above it, or null.
const CLI::Option* find_option(const CLI::App* command, const std::string& name) {
  for (; command != nullptr; command = command->get_parent())
    if (const CLI::Option* option = command->get_option_no_throw(name)) return option;
  return nullptr;
}

}  // namespace

void refuse_flag_values(CLI::App& app, int argc, const char* const* argv) {
  CLI::App* command = &app;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--") return;
    if (CLI::App* inner = subcommand(*command, argument)) command = inner;
    const std::size_t equals = argument.find('=');
    if (!argument.starts_with("--") || equals == std::string::npos) continue;
    const std::string name = argument.substr(0, equals);
    const CLI::Option* option = find_option(command, name);
    if (option != nullptr && option->get_items_expected_max() == 0)
      throw UsageError(fmt::format("{}: takes no value, found '{}'", name, argument.substr(equals + 1)));
  }
}

}  // namespace attest
