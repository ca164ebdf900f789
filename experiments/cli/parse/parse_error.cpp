// Explains parse errors in the program's own words; the parser's are for programmers.
#include "experiments/cli/parse/parse_error.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>

#include "dumps/base/error.h"
#include "dumps/base/join.h"
#include "kernels/selectors/options.h"

namespace attest {
namespace {

/// The options of a command, then those of its parents.
std::vector<const Option*> options_around(const Command& command) {
  std::vector<const Option*> options;
  for (const Command* one = &command; one != nullptr; one = one->parent())
    for (const auto& option : one->options()) options.push_back(option.get());
  return options;
}

std::vector<std::string> option_names(const Command& command) {
  std::vector<std::string> names;
  for (const Option* option : options_around(command))
    if (option->name().starts_with("--") && std::ranges::count(names, option->name()) == 0)
      names.push_back(option->name());
  return names;
}

std::vector<std::string> command_names(const Command& command) {
  std::vector<std::string> names;
  for (const auto& inner : command.commands()) names.push_back(inner->name());
  return names;
}

/// The option that the parser's sentence is about: the longest name in it. Null if there is none.
const Option* option_in(const Command& command, const std::string& sentence) {
  const Option* found = nullptr;
  for (const Option* option : options_around(command))
    if (sentence.find(option->name()) != std::string::npos &&
        (found == nullptr || option->name().size() > found->name().size()))
      found = option;
  return found;
}

std::string lower_first(std::string text) {
  if (text.size() > 1 && std::islower(static_cast<unsigned char>(text[1])))
    text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
  return text;
}

std::string missing_argument(const Command& command) {
  for (const auto& option : command.options())
    if (option->is_required() && !option->is_given())
      return fmt::format("{}, {}", option->name(), lower_first(option->description()));
  return fmt::format("one of its commands: {}", join(command_names(command), ", "));
}

std::string sentence_about(const Command& command, const ParseFailure& failure) {
  if (failure.fault == ParseFault::missing)
    return fmt::format("'{}' needs {}", command.full_name(), missing_argument(command));
  if (failure.fault == ParseFault::too_much && !failure.unknown.empty())
    return fmt::format("unexpected argument '{}'", failure.unknown.front());
  const Option* option = option_in(command, failure.words);
  if (option != nullptr && failure.fault == ParseFault::number_of_values)
    return option->count() > 1
               ? fmt::format("{}: given {} times, expected once", option->name(), option->count())
               : fmt::format("{}: the value is missing, expected {}", option->name(), option->expected());
  // Values have checks of their own (checks.h): what cannot be converted is the value of a flag.
  if (option != nullptr && failure.fault == ParseFault::conversion)
    return fmt::format("{}: '{}' is not true or false", option->name(), join(option->values(), " "));
  std::string words = failure.words;
  std::ranges::replace(words, '\n', ' ');
  return words;
}

}  // namespace

std::string explain(const Command& program, const ParseFailure& failure) {
  const Command& command = program.given_command();
  const auto unknown =
      std::ranges::find_if(failure.unknown, [](const std::string& word) { return word.starts_with("-"); });
  if (unknown != failure.unknown.end()) {
    const std::string name = unknown->substr(0, unknown->find('='));
    return fmt::format("unknown option '{}'; nearest: {}", name, nearest_names(name, option_names(command)));
  }
  const bool none = &command == &program;
  if (none && !failure.unknown.empty())
    return fmt::format("unknown command '{}'; nearest: {}", failure.unknown.front(),
                       nearest_names(failure.unknown.front(), command_names(program)));
  if (none && failure.fault == ParseFault::missing) return "no command was given; 'attest --help' lists them";
  return fmt::format("{}; see '{} --help'", sentence_about(command, failure), command.full_name());
}

void refuse_flag_values(const Command& program, const std::vector<std::string>& words) {
  const Command* command = &program;
  for (const std::string& word : words) {
    if (word == "--") return;
    if (const Command* inner = command->find_command(word)) command = inner;
    const std::size_t equals = word.find('=');
    if (!word.starts_with("--") || equals == std::string::npos) continue;
    const std::string name = word.substr(0, equals);
    const std::vector<const Option*> options = options_around(*command);
    const auto option = std::ranges::find(options, name, [](const Option* one) { return one->name(); });
    if (option != options.end() && (*option)->is_flag())
      throw UsageError(fmt::format("{}: takes no value, found '{}'", name, word.substr(equals + 1)));
  }
}

}  // namespace attest
