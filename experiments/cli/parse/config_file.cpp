// Checks the entries of a configuration file against the options.
#include "experiments/cli/parse/config_file.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "dumps/base/error.h"
#include "dumps/base/join.h"
#include "dumps/base/printable.h"
#include "kernels/selectors/options.h"

namespace attest {
namespace {

std::vector<std::string> keys_of(const Command& command) {
  std::vector<std::string> keys;
  for (const auto& option : command.options())
    if (std::string key = option->key(); !key.empty()) keys.push_back(std::move(key));
  return keys;
}

const Option* option_of_key(const Command& command, const std::string& key) {
  for (const auto& option : command.options())
    if (!key.empty() && option->has_key(key)) return option.get();
  return nullptr;
}

/// The command [a.b] of the program, or null.
const Command* command_of_section(const Command& program, const std::vector<std::string>& section) {
  const Command* command = &program;
  for (const std::string& name : section)
    if (command != nullptr) command = command->find_command(name);
  return command;
}

/// The sections that have keys: "run", "bench.study".
std::vector<std::string> section_names(const Command& command, const std::string& prefix = "") {
  std::vector<std::string> names;
  for (const auto& inner : command.commands()) {
    const std::string name = prefix + inner->name();
    if (!keys_of(*inner).empty()) names.push_back(name);
    const std::vector<std::string> below = section_names(*inner, name + ".");
    names.insert(names.end(), below.begin(), below.end());
  }
  return names;
}

/// The complaint about a value that it quotes: a long one is cut.
std::string with_excerpt(std::string complaint, const std::string& value) {
  for (const std::string& quoted : {value, printable(value)})
    if (const std::size_t at = complaint.find(quoted); at != std::string::npos)
      return complaint.replace(at, quoted.size(), excerpt(value));
  return complaint;
}

/// The complaint about the values of an option; empty if there is none.
std::string complaint_about_entry(const Option& option, const ConfigEntry& entry) {
  if (option.is_flag())
    return entry.values == std::vector<std::string>{"true"} || entry.values == std::vector<std::string>{"false"}
               ? ""
               : fmt::format("'{}' is not true or false", excerpt(join(entry.values, ",")));
  if (entry.values.empty()) return "the list is empty";
  if (!option.is_list() && entry.is_list) return "it takes one value, found a list";
  for (const std::string& value : entry.values)
    if (std::string complaint = option.complaint_about(value); !complaint.empty())
      return with_excerpt(std::move(complaint), value);
  return "";
}

}  // namespace

void ConfigFile::fail(const ConfigEntry& entry, const std::string& sentence) const {
  throw UsageError(fmt::format("{}, line {}: {}", path_, entry.line, sentence));
}

/// The file of --config may not be named as an output, which would replace it, nor as anything else.
void ConfigFile::refuse_as_argument(const Command& command) const {
  for (const auto& option : command.options())
    if (!option->key().empty())
      for (const std::string& value : option->values())
        if (std::error_code ignored; std::filesystem::equivalent(value, path_, ignored))
          throw UsageError(fmt::format("{}: '{}' is the file of --config, too", option->name(), value));
  for (const auto& inner : command.commands())
    if (inner->is_given()) refuse_as_argument(*inner);
}

std::string ConfigFile::unknown_key(const Command& command, const ConfigEntry& entry,
                                    const std::string& section) const {
  const std::string where = section.empty() ? "before the first [section]" : fmt::format("in [{}]", section);
  std::string sentence = fmt::format("unknown key '{}' {}", excerpt(entry.key), where);
  if (!section.empty() && option_of_key(program_, entry.key) != nullptr)
    return sentence + "; it is a common option, which stands before the first [section]";
  const std::vector<std::string> keys = keys_of(command);
  return keys.empty() ? sentence + ", which takes none"
                      : fmt::format("{}; nearest: {}", sentence, nearest_names(entry.key, keys));
}

void ConfigFile::check(const ConfigEntry& entry) {
  const std::string section = join(entry.section, ".");
  const Command* command = command_of_section(program_, entry.section);
  if (command == nullptr)
    fail(entry, fmt::format("unknown section [{}]; nearest: {}", excerpt(section),
                            nearest_names(section, section_names(program_))));
  const Option* option = option_of_key(*command, entry.key);
  if (option == nullptr) fail(entry, unknown_key(*command, entry, section));
  const std::string complaint = complaint_about_entry(*option, entry);
  if (!complaint.empty()) fail(entry, fmt::format("{}: {}", entry.key, complaint));
  // A value on the command line goes before that of the file.
  if (!option->is_given() && command->is_given()) lines_[option->name()] = entry.line;
}

std::vector<ConfigEntry> ConfigFile::entries(const std::string& text, const std::string& path) {
  path_ = path;
  refuse_as_argument(program_);
  std::vector<ConfigEntry> entries = parse_config(text, path);
  for (const ConfigEntry& entry : entries) check(entry);
  return entries;
}

std::string ConfigFile::located(const std::string& sentence) const {
  constexpr std::string_view kNameCharacters = "abcdefghijklmnopqrstuvwxyz-";
  const std::string name = sentence.substr(0, sentence.find_first_not_of(kNameCharacters));
  const auto found = lines_.find(name);
  return found == lines_.end() ? sentence : fmt::format("{}, line {}: {}", path_, found->second, sentence);
}

}  // namespace attest
