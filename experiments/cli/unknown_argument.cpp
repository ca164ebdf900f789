// Explains parse errors, with the nearest known names.
#include "experiments/cli/unknown_argument.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <vector>

#include "kernels/selectors/options.h"

namespace attest {
namespace {

std::vector<std::string> option_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::App* app = &command; app != nullptr; app = app->get_parent())
    for (const CLI::Option* option : app->get_options())
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  return names;
}

}  // namespace

std::string explain(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<CLI::App*> parsed = app.get_subcommands();
  const CLI::App& command = parsed.empty() ? app : *parsed.front();
  const std::vector<std::string> unknown = app.remaining(true);
  const auto option = std::find_if(unknown.begin(), unknown.end(),
                                   [](const std::string& argument) { return argument.starts_with("-"); });
  if (option != unknown.end()) {
    const std::string name = option->substr(0, option->find('='));
    return fmt::format("unknown option '{}'; nearest: {}", name, nearest_names(name, option_names(command)));
  }
  if (parsed.empty() && !unknown.empty())
    return fmt::format("unknown command '{}'; nearest: {}", unknown.front(),
                       nearest_names(unknown.front(), command_names(app)));
  if (parsed.empty()) return "no command was given; 'attest --help' lists them";
  std::string text = error.what();
  std::replace(text.begin(), text.end(), '\n', ' ');
  return fmt::format("{}; see 'attest {} --help'", text, command.get_name());
}

}  // namespace attest
