// The commands of a command line and their options, which are bound to variables. CLI11 parses them; command.cpp alone
// knows it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/cli/parse/checks.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace attest {

class ConfigFile;

/// An option, a flag or a positional argument.
class Option {
 public:
  Option(const Option&) = delete;
  Option& operator=(const Option&) = delete;

  // Set-up. Each returns *this.

  /// Every value must pass the check.
  Option& takes(Check check);
  /// The word that stands for the value in the help: "FILE".
  Option& type(const std::string& name);
  Option& required(bool is_required = true);
  /// The help shows the present value of the variable, or a text, as the default.
  Option& shows_default();
  Option& shows_default(const std::string& text);
  /// For a list: values may be separated by commas. The check refuses empty ones, too.
  Option& separated();
  /// For a list: the option may stand without a value.
  Option& may_be_empty();
  /// For a list: the option takes one value each time that it is given.
  Option& one_each_time();
  /// For a text: a value that is given later is added behind a comma.
  Option& joined();
  /// Refused without the other one.
  Option& needs(const Option& other);

  // Description.

  const std::string& name() const { return names_.front(); }  ///< "--output", "DUMP"
  const std::string& description() const { return description_; }
  /// In the file of --config: "output", "DUMP". Empty for an option that cannot stand there, such as --help.
  std::string key() const;
  /// Whether the key is that, or another name of the option.
  bool has_key(const std::string& key) const;
  bool is_flag() const { return kind_ == Kind::flag; }
  bool is_list() const { return kind_ == Kind::list; }
  bool is_required() const { return required_; }
  /// What the check expects, or the type of the value.
  const std::string& expected() const { return check_.expected.empty() ? type_ : check_.expected; }
  /// What the check says of a value; empty if it is good.
  std::string complaint_about(std::string value) const { return check_.complaint_about(value); }

  // After parsing.

  std::size_t count() const;  ///< values, those of the file of --config included
  bool is_given() const;      ///< not a flag that the file sets to false
  std::vector<std::string> values() const;

 private:
  friend class Command;
  enum class Kind { flag, value, list };
  Option(CLI::Option* parsed, std::string_view names, std::string description, Kind kind, bool is_common);
  /// The values in words of the command line.
  std::vector<std::string> items(const std::vector<std::string>& words) const;

  CLI::Option* parsed_;
  std::vector<std::string> names_;  ///< the first is its own, the others are accepted, too
  std::string description_, type_;
  Kind kind_;
  bool in_config_file_, required_ = false, separated_ = false;
  Check check_;
};

class Command {
 public:
  /// The program. Its options are accepted behind the names of its commands, too.
  Command(const std::string& name, const std::string& description);
  ~Command();
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  // Set-up. Variables must outlive the parsing; what is returned lives as long as the program's Command.

  Command& add_command(const std::string& name, const std::string& description);
  /// `names`: "-o,--output", "--output", or "DUMP" for a positional argument. Value: std::string, int, std::int64_t,
  /// std::uint64_t, double, a std::optional of double or std::int64_t, or a std::vector of text, int, std::int64_t or
  /// double.
  template <class Value>
  Option& option(const std::string& names, Value& variable, const std::string& description);
  Option& flag(const std::string& names, bool& variable, const std::string& description);
  /// Of the program: prints the report.
  void version_flag(const std::string& name, std::function<std::string()> report, const std::string& description);
  /// Of the program: the option that names the configuration file.
  Option& config_file(const std::string& name, const std::string& description);
  /// The help ends with this text.
  void footer(const std::string& text);
  /// One of its commands must be given.
  void requires_command();
  /// What run() does if this command is given.
  void on_run(std::function<void()> run) { run_ = std::move(run); }
  /// Of the program: what run() does first, whichever command is given.
  void before_run(std::function<void()> check) { before_run_ = std::move(check); }
  /// Nothing behind its name is parsed: parse() hands the words over.
  void hands_over(std::function<void(const std::vector<std::string>&)> take);

  // Of the program.

  /// Parses the words behind the program's name, and answers --help and --version. Throws UsageError for a word or a
  /// value that is wrong, and what the file of --config is refused with (config_file.h).
  void parse(std::vector<std::string> words);
  /// Runs the command that was given. A UsageError about an option of the file of --config gets file and line.
  void run();

  // Description.

  const std::string& name() const { return name_; }
  std::string full_name() const;  ///< "attest bench study"
  Command* parent() const { return parent_; }
  const std::vector<std::unique_ptr<Command>>& commands() const { return commands_; }
  const std::vector<std::unique_ptr<Option>>& options() const { return options_; }
  /// The command below this one, or null.
  Command* find_command(std::string_view name) const;

  // After parsing.

  bool is_given() const;
  bool gives(std::string_view option) const;  ///< "--bound"
  /// The command that was given: this one, or the innermost below it.
  const Command& given_command() const;

 private:
  struct Binding;
  Command(CLI::App* app, Command* parent, const std::string& name);
  Option& bind(const std::string& names, Binding binding, const std::string& description);
  Option& keep(CLI::Option* parsed, std::string_view names, const std::string& description, Option::Kind kind,
               bool is_common = false);

  std::unique_ptr<CLI::App> owned_;  ///< of the program
  CLI::App* app_;
  Command* parent_;
  std::string name_;
  std::vector<std::unique_ptr<Command>> commands_;
  std::vector<std::unique_ptr<Option>> options_;
  std::function<void()> run_, before_run_;
  std::function<void(const std::vector<std::string>&)> take_words_;
  std::unique_ptr<ConfigFile> config_file_;
  bool answered_ = false;  ///< by the help or the version
};

}  // namespace attest
