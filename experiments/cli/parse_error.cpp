// Explains parse errors in the program's own words; CLI11's are for programmers.
#include "experiments/cli/parse_error.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <vector>

#include "kernels/selectors/options.h"

namespace attest {
namespace {

void add_once(std::vector<std::string>& names, const std::string& name) {
  if (std::ranges::count(names, name) == 0) names.push_back(name);
}

/// The options of a command, then those of its parents.
std::vector<const CLI::Option*> options_of(const CLI::App& command) {
  std::vector<const CLI::Option*> options;
  for (const CLI::App* app = &command; app != nullptr; app = app->get_parent())
    for (const CLI::Option* option : app->get_options()) options.push_back(option);
  return options;
}

std::vector<std::string> option_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : options_of(command))
    for (const std::string& name : option->get_lnames()) add_once(names, "--" + name);
  return names;
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  return names;
}

const CLI::App& parsed_command(const CLI::App& app) {
  const std::vector<CLI::App*> parsed = app.get_subcommands();
  return parsed.empty() ? app : parsed_command(*parsed.front());
}

/// "attest bench study"
std::string name_of(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  return parent == nullptr ? command.get_name() : name_of(*parent) + " " + command.get_name();
}

/// The option that CLI11's sentence is about: the longest name in it. Null if there is none.
CLI::Option* option_in(const CLI::App& command, const std::string& sentence) {
  CLI::Option* found = nullptr;
  for (const CLI::Option* option : options_of(command)) {
    const std::string name = option->get_name();
    if (sentence.find(name) != std::string::npos && (found == nullptr || name.size() > found->get_name().size()))
      found = const_cast<CLI::Option*>(option);  // CLI11 has no const access to validators
  }
  return found;
}

/// "a whole number from 0 to 1024": what the option's check says of an empty text.
std::string expected_by(CLI::Option& option) {
  constexpr std::string_view kOfNothing = "'' is not ";
  const std::string complaint = complaint_about(option, "");
  return complaint.starts_with(kOfNothing) ? complaint.substr(kOfNothing.size()) : option.get_type_name();
}

std::string lower_first(std::string text) {
  if (text.size() > 1 && std::islower(static_cast<unsigned char>(text[1])))
    text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
  return text;
}

std::string missing_argument(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options())
    if (option->get_required() && option->count() == 0)
      return fmt::format("{}, {}", option->get_name(), lower_first(option->get_description()));
  return fmt::format("one of its commands: {}", fmt::join(command_names(command), ", "));
}

std::string one_line(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  return text;
}

std::string sentence_about(const CLI::App& command, const std::vector<std::string>& unexpected,
                           const CLI::ParseError& error) {
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr)
    return fmt::format("'{}' needs {}", name_of(command), missing_argument(command));
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr && !unexpected.empty())
    return fmt::format("unexpected argument '{}'", unexpected.front());
  CLI::Option* option = option_in(command, error.what());
  if (option == nullptr) return one_line(error.what());
  const std::string name = option->get_name();
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
    const std::size_t given = option->count();
    return given > 1 ? fmt::format("{}: given {} times, expected once", name, given)
                     : fmt::format("{}: the value is missing, expected {}", name, expected_by(*option));
  }
  // Values have checks of their own (checks.h): what cannot be converted is the value of a flag.
  if (dynamic_cast<const CLI::ConversionError*>(&error) != nullptr)
    return fmt::format("{}: '{}' is not true or false", name, fmt::join(option->results(), " "));
  return one_line(error.what());
}

}  // namespace

std::string complaint_about(CLI::Option& option, std::string text) {
  for (int i = 0;; ++i) {
    const CLI::Validator* check = nullptr;
    try {
      check = option.get_validator(i);
    } catch (const CLI::OptionNotFound&) {
      return "";
    }
    if (const std::string complaint = (*check)(text); !complaint.empty()) return complaint;
  }
}

std::string explain(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App& command = parsed_command(app);
  const std::vector<std::string> unknown = app.remaining(true);
  const auto option = std::find_if(unknown.begin(), unknown.end(),
                                   [](const std::string& argument) { return argument.starts_with("-"); });
  if (option != unknown.end()) {
    const std::string name = option->substr(0, option->find('='));
    return fmt::format("unknown option '{}'; nearest: {}", name, nearest_names(name, option_names(command)));
  }
  const bool none = &command == &app;
  if (none && !unknown.empty())
    return fmt::format("unknown command '{}'; nearest: {}", unknown.front(),
                       nearest_names(unknown.front(), command_names(app)));
  const std::string sentence = sentence_about(command, unknown, error);
  if (none && dynamic_cast<const CLI::RequiredError*>(&error) != nullptr)
    return "no command was given; 'attest --help' lists them";
  return fmt::format("{}; see '{} --help'", sentence, name_of(command));
}

}  // namespace attest
