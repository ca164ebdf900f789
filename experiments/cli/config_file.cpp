// Checks the entries of a configuration file against the options, and hands them to CLI11.
#include "experiments/cli/config_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <vector>

#include "dumps/base/error.h"
#include "dumps/base/printable.h"
#include "experiments/cli/config_text.h"
#include "experiments/cli/parse_error.h"
#include "kernels/selectors/options.h"

namespace attest {
namespace {

/// The key of an option: its long name, or that of a positional argument. Empty for --help, --config and --version.
std::string key_of(const CLI::App& app, const CLI::Option& option) {
  if (!option.get_configurable() || &option == app.get_help_ptr() || &option == app.get_config_ptr() ||
      &option == app.get_version_ptr())
    return "";
  return option.get_lnames().empty() ? option.get_name(true) : option.get_lnames().front();
}

CLI::Option* find_option(CLI::App& app, const std::string& key) {
  for (CLI::Option* option : app.get_options())
    if (!key.empty() && key_of(app, *option) == key) return option;
  return nullptr;
}

std::vector<std::string> keys_of(CLI::App& app) {
  std::vector<std::string> keys;
  for (const CLI::Option* option : app.get_options())
    if (std::string key = key_of(app, *option); !key.empty()) keys.push_back(std::move(key));
  return keys;
}

/// The command [a.b] of the root, or null.
CLI::App* find_command(CLI::App& root, const std::vector<std::string>& section) {
  CLI::App* command = &root;
  for (const std::string& name : section) {
    const std::vector<CLI::App*> commands = command->get_subcommands([](const CLI::App*) { return true; });
    const auto found = std::ranges::find_if(commands, [&](const CLI::App* c) { return c->get_name() == name; });
    if (found == commands.end()) return nullptr;
    command = *found;
  }
  return command;
}

/// The sections that have keys: "run", "bench.study".
std::vector<std::string> section_names(CLI::App& app, const std::string& prefix = "") {
  std::vector<std::string> names;
  for (CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    const std::string name = prefix + command->get_name();
    if (!keys_of(*command).empty()) names.push_back(name);
    const std::vector<std::string> inner = section_names(*command, name + ".");
    names.insert(names.end(), inner.begin(), inner.end());
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

/// What is wrong with the values of an option; empty if nothing is.
std::string complaint_about_entry(CLI::Option& option, const ConfigEntry& entry) {
  if (option.get_items_expected_max() == 0)
    return entry.values == std::vector<std::string>{"true"} || entry.values == std::vector<std::string>{"false"}
               ? ""
               : fmt::format("'{}' is not true or false", excerpt(fmt::format("{}", fmt::join(entry.values, ","))));
  if (entry.values.empty()) return "the list is empty";
  const bool takes_one =
      option.get_multi_option_policy() == CLI::MultiOptionPolicy::Throw && option.get_items_expected_max() == 1;
  if (takes_one && entry.is_list) return "it takes one value, found a list";
  for (const std::string& value : entry.values)
    if (std::string complaint = complaint_about(option, value); !complaint.empty())
      return with_excerpt(std::move(complaint), value);
  return "";
}

bool is_parsed(const CLI::App& command) {
  return command.get_parent() == nullptr || (command.parsed() && is_parsed(*command.get_parent()));
}

}  // namespace

class ConfigFile::Reader : public CLI::ConfigTOML {
 public:
  Reader(CLI::App& app, std::shared_ptr<Origins> origins) : app_(app), origins_(std::move(origins)) {}

  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override {
    const std::string text{std::istreambuf_iterator<char>(input), {}};
    origins_->path = app_.get_config_ptr()->as<std::string>();
    std::vector<CLI::ConfigItem> items;
    refuse_as_argument(app_);
    for (const ConfigEntry& entry : parse_config(text, origins_->path)) {
      check(entry);
      CLI::ConfigItem& item = items.emplace_back();
      item.parents = entry.section;
      item.name = entry.key;
      item.inputs = entry.values;
    }
    return items;
  }

 private:
  [[noreturn]] void fail(const ConfigEntry& entry, const std::string& sentence) const {
    throw UsageError(fmt::format("{}, line {}: {}", origins_->path, entry.line, sentence));
  }

  /// The file may not be named as an output, which would replace it, nor as anything else.
  void refuse_as_argument(CLI::App& command) const {
    for (const CLI::Option* option : command.get_options())
      for (const std::string& value : option->results())
        if (std::error_code ignored;
            option != app_.get_config_ptr() && std::filesystem::equivalent(value, origins_->path, ignored))
          throw UsageError(fmt::format("{}: '{}' is the file of --config, too", option->get_name(), value));
    for (CLI::App* inner : command.get_subcommands([](const CLI::App* one) { return one->parsed(); }))
      refuse_as_argument(*inner);
  }

  void check(const ConfigEntry& entry) const {
    const std::string section = fmt::format("{}", fmt::join(entry.section, "."));
    CLI::App* command = find_command(app_, entry.section);
    if (command == nullptr)
      fail(entry, fmt::format("unknown section [{}]; nearest: {}", excerpt(section),
                              nearest_names(section, section_names(app_))));
    CLI::Option* option = find_option(*command, entry.key);
    if (option == nullptr) fail(entry, unknown_key(*command, entry, section));
    const std::string complaint = complaint_about_entry(*option, entry);
    if (!complaint.empty()) fail(entry, fmt::format("{}: {}", entry.key, complaint));
    // A value on the command line goes before that of the file.
    if (option->count() == 0 && is_parsed(*command)) origins_->lines[option->get_name()] = entry.line;
  }

  std::string unknown_key(CLI::App& command, const ConfigEntry& entry, const std::string& section) const {
    const std::string where = section.empty() ? "before the first [section]" : fmt::format("in [{}]", section);
    std::string sentence = fmt::format("unknown key '{}' {}", excerpt(entry.key), where);
    if (!section.empty() && find_option(app_, entry.key) != nullptr)
      return sentence + "; it is a common option, which stands before the first [section]";
    const std::vector<std::string> keys = keys_of(command);
    return keys.empty() ? sentence + ", which takes none"
                        : fmt::format("{}; nearest: {}", sentence, nearest_names(entry.key, keys));
  }

  CLI::App& app_;
  std::shared_ptr<Origins> origins_;
};

ConfigFile::ConfigFile(CLI::App& app) : origins_(std::make_shared<Origins>()) {
  app.config_formatter(std::make_shared<Reader>(app, origins_));
}

std::string ConfigFile::located(const std::string& sentence) const {
  constexpr std::string_view kNameCharacters = "abcdefghijklmnopqrstuvwxyz-";
  const std::string name = sentence.substr(0, sentence.find_first_not_of(kNameCharacters));
  const auto found = origins_->lines.find(name);
  return found == origins_->lines.end() ? sentence
                                        : fmt::format("{}, line {}: {}", origins_->path, found->second, sentence);
}

}  // namespace attest
