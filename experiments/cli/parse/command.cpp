// Command and Option on top of CLI11.
#include "experiments/cli/parse/command.h"

#include <fmt/core.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>

#include "dumps/base/error.h"
#include "dumps/base/join.h"
#include "dumps/base/text_parts.h"
#include "experiments/cli/parse/config_file.h"
#include "experiments/cli/parse/parse_error.h"

namespace attest {
namespace {

using Texts = std::vector<std::string>;

// For each type of variables: its name in the help, the value of a text, and the text of a value.

const char* type_of(const std::string&) { return "TEXT"; }
const char* type_of(int) { return "INT"; }
const char* type_of(std::int64_t) { return "INT"; }
const char* type_of(std::uint64_t) { return "UINT"; }
const char* type_of(double) { return "FLOAT"; }

bool convert(const std::string& text, std::string& value) {
  value = text;
  return true;
}
template <class Number>
bool convert(const std::string& text, Number& number) {
  const std::optional<Number> parsed = parse_number<Number>(text);
  number = parsed.value_or(number);
  return parsed.has_value();
}
template <class Number>
bool convert(const std::string& text, std::optional<Number>& number) {
  return convert(text, number.emplace());
}

std::string text_of(const std::string& value) { return value; }
std::string text_of(double value) { return fmt::format("{:g}", value); }
template <class Number>
std::string text_of(Number value) {
  return std::to_string(value);
}

/// The file of --config as CLI11 takes it.
class ConfigItems : public CLI::Config {
 public:
  ConfigItems(ConfigFile& file, const Option& name) : file_(file), name_(name) {}

  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override {
    const std::string text{std::istreambuf_iterator<char>(input), {}};
    std::vector<CLI::ConfigItem> items;
    for (ConfigEntry& entry : file_.entries(text, name_.values().front())) {
      CLI::ConfigItem& item = items.emplace_back();
      item.parents = std::move(entry.section);
      item.name = std::move(entry.key);
      item.inputs = std::move(entry.values);
    }
    return items;
  }

  std::string to_config(const CLI::App*, bool, bool, std::string) const override { return ""; }

 private:
  ConfigFile& file_;
  const Option& name_;
};

ParseFault fault_of(const CLI::ParseError& error) {
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) return ParseFault::missing;
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) return ParseFault::too_much;
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) return ParseFault::number_of_values;
  if (dynamic_cast<const CLI::ConversionError*>(&error) != nullptr) return ParseFault::conversion;
  return ParseFault::other;
}

/// "--dtype" and "--element-type" of "--dtype,--element-type", "--output" of "-o,--output", "DUMP" of "DUMP".
Texts long_names(std::string_view names) {
  Texts all;
  for (const std::string_view name : split(names, ','))
    if (name.starts_with("--") || !name.starts_with('-')) all.emplace_back(name);
  return all;
}

}  // namespace

/// The variable of an option.
struct Command::Binding {
  std::string type;
  bool is_list = false;
  std::function<bool(const Texts&)> set;
  std::function<std::string()> shown;  ///< the present value

  template <class Value>
  explicit Binding(Value& variable)
      : type(type_of(variable)),
        set([&variable](const Texts& texts) { return convert(texts.front(), variable); }),
        shown([&variable] { return text_of(variable); }) {}
  explicit Binding(std::string& variable)
      : type(type_of(variable)),
        set([&variable](const Texts& texts) {
          variable = join(texts, ",");  // several only of Option::joined()
          return true;
        }),
        shown([&variable] { return variable; }) {}
  template <class Number>
  explicit Binding(std::optional<Number>& variable)
      : type(type_of(Number{})),
        set([&variable](const Texts& texts) { return convert(texts.front(), variable); }),
        shown([&variable] { return variable ? text_of(*variable) : ""; }) {}
  template <class Value>
  explicit Binding(std::vector<Value>& variable)
      : type(type_of(Value{})),
        is_list(true),
        set([&variable](const Texts& texts) {
          variable.clear();
          return std::ranges::all_of(texts,
                                     [&](const std::string& text) { return convert(text, variable.emplace_back()); });
        }),
        shown([&variable] {
          std::string text;
          for (const Value& value : variable) text += (text.empty() ? "[" : ",") + text_of(value);
          return text + "]";
        }) {}
};

Option::Option(CLI::Option* parsed, std::string_view names, std::string description, Kind kind, bool is_common)
    : parsed_(parsed),
      names_(long_names(names)),
      description_(std::move(description)),
      kind_(kind),
      in_config_file_(!is_common) {}

Option& Option::takes(Check check) {
  check_ = std::move(check);
  const auto complaint = [this](std::string& word) {
    Texts own = items({word});
    for (std::string& item : own)
      if (std::string text = check_.complaint_about(item); !text.empty()) return text;
    word = join(own, ",");
    return std::string();
  };
  parsed_->transform(CLI::Validator(complaint, check_.shown));
  return *this;
}

Option& Option::type(const std::string& name) {
  type_ = name;
  parsed_->type_name(name);
  return *this;
}

Option& Option::required(bool is_required) {
  required_ = is_required;
  parsed_->required(is_required);
  return *this;
}

Option& Option::shows_default() {
  parsed_->capture_default_str();
  return *this;
}

Option& Option::shows_default(const std::string& text) {
  parsed_->default_str(text);
  return *this;
}

Option& Option::separated() {
  separated_ = true;
  return *this;
}

Option& Option::one_each_time() {
  parsed_->allow_extra_args(false);
  return *this;
}

Option& Option::joined() {
  kind_ = Kind::list;
  // Join is not used: it puts newlines between the values, which may have newlines themselves.
  parsed_->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  return *this;
}

Option& Option::needs(const Option& other) {
  parsed_->needs(other.parsed_);
  return *this;
}

std::string Option::key() const {
  if (!in_config_file_) return "";
  return name().substr(name().starts_with("--") ? 2 : 0);
}

bool Option::has_key(const std::string& key) const {
  return in_config_file_ && (key == this->key() || std::ranges::count(names_, "--" + key) > 0);
}

Option& Option::may_be_empty() {
  parsed_->expected(0, CLI::detail::expected_max_vector_size);
  return *this;
}

std::size_t Option::count() const { return parsed_->count(); }

bool Option::is_given() const { return count() > 0 && !(is_flag() && parsed_->results().back() == "false"); }

std::vector<std::string> Option::values() const { return items(parsed_->results()); }

std::vector<std::string> Option::items(const std::vector<std::string>& words) const {
  if (!separated_) return words;
  Texts all;
  // CLI11's own splitting would leave empty items out silently.
  for (const std::string& word : words)
    for (const std::string_view item : split(word, ',')) all.emplace_back(item);
  return all;
}

Command::Command(const std::string& name, const std::string& description)
    : owned_(std::make_unique<CLI::App>(description, name)), app_(owned_.get()), parent_(nullptr), name_(name) {
  keep(app_->get_help_ptr(), "-h,--help", "", Option::Kind::flag, /*is_common=*/true);
  app_->fallthrough();
  app_->allow_config_extras(CLI::config_extras_mode::error);
}

Command::Command(CLI::App* app, Command* parent, const std::string& name) : app_(app), parent_(parent), name_(name) {
  keep(app_->get_help_ptr(), "-h,--help", "", Option::Kind::flag, /*is_common=*/true);
}

Command::~Command() = default;

Command& Command::add_command(const std::string& name, const std::string& description) {
  CLI::App* app = app_->add_subcommand(name, description);
  return *commands_.emplace_back(new Command(app, this, name));
}

Option& Command::keep(CLI::Option* parsed, std::string_view names, const std::string& description, Option::Kind kind,
                      bool is_common) {
  return *options_.emplace_back(new Option(parsed, names, description, kind, is_common));
}

Option& Command::bind(const std::string& names, Binding binding, const std::string& description) {
  const auto made = std::make_shared<const Option*>();  // known only after what is called with its values
  const auto set = [made, set = std::move(binding.set)](const Texts& words) { return set((*made)->items(words)); };
  CLI::Option* parsed = app_->add_option(names, set, description, false, std::move(binding.shown));
  parsed->expected(binding.is_list ? CLI::detail::expected_max_vector_size : 1);
  Option& option = keep(parsed, names, description, binding.is_list ? Option::Kind::list : Option::Kind::value);
  *made = &option;
  return option.type(binding.type);
}

template <class Value>
Option& Command::option(const std::string& names, Value& variable, const std::string& description) {
  return bind(names, Binding(variable), description);
}
template Option& Command::option(const std::string&, std::string&, const std::string&);
template Option& Command::option(const std::string&, int&, const std::string&);
template Option& Command::option(const std::string&, std::int64_t&, const std::string&);
template Option& Command::option(const std::string&, std::uint64_t&, const std::string&);
template Option& Command::option(const std::string&, double&, const std::string&);
template Option& Command::option(const std::string&, std::optional<double>&, const std::string&);
template Option& Command::option(const std::string&, std::optional<std::int64_t>&, const std::string&);
template Option& Command::option(const std::string&, Texts&, const std::string&);
template Option& Command::option(const std::string&, std::vector<int>&, const std::string&);
template Option& Command::option(const std::string&, std::vector<std::int64_t>&, const std::string&);
template Option& Command::option(const std::string&, std::vector<double>&, const std::string&);

Option& Command::flag(const std::string& names, bool& variable, const std::string& description) {
  return keep(app_->add_flag(names, variable, description), names, description, Option::Kind::flag);
}

void Command::version_flag(const std::string& name, std::function<std::string()> report,
                           const std::string& description) {
  CLI::Option* parsed = app_->set_version_flag(name, std::move(report), description);
  keep(parsed, name, description, Option::Kind::flag, /*is_common=*/true);
}

Option& Command::config_file(const std::string& name, const std::string& description) {
  CLI::Option* parsed = app_->set_config(name, "", description);
  Option& option = keep(parsed, name, description, Option::Kind::value, /*is_common=*/true);
  config_file_ = std::make_unique<ConfigFile>(*this);
  app_->config_formatter(std::make_shared<ConfigItems>(*config_file_, option));
  return option;
}

void Command::footer(const std::string& text) { app_->footer(text); }

void Command::requires_command() { app_->require_subcommand(1); }

void Command::hands_over(std::function<void(const std::vector<std::string>&)> take) {
  app_->set_help_flag();
  app_->allow_extras()->fallthrough(false);
  options_.clear();  // the help was the only one
  take_words_ = std::move(take);
  run_ = [this] {
    throw UsageError(fmt::format("expected '{}' before its options; it takes none of the common ones", name_));
  };
}

void Command::parse(std::vector<std::string> words) {
  if (const Command* first = words.empty() ? nullptr : find_command(words.front()); first && first->take_words_)
    return first->take_words_({words.begin() + 1, words.end()});
  refuse_flag_values(*this, words);
  std::ranges::reverse(words);  // CLI11 parses a vector from its end
  try {
    app_->parse(words);
  } catch (const CLI::Success& asked) {
    answered_ = true;
    app_->exit(asked);
  } catch (const CLI::ParseError& error) {
    throw UsageError(explain(*this, {fault_of(error), error.what(), app_->remaining(true)}));
  }
}

void Command::run() {
  const Command& command = given_command();
  if (answered_ || !command.run_) return;
  try {
    if (before_run_) before_run_();
    command.run_();
  } catch (const UsageError& error) {
    throw UsageError(config_file_ ? config_file_->located(error.what()) : error.what());
  }
}

std::string Command::full_name() const { return parent_ == nullptr ? name_ : parent_->full_name() + " " + name_; }

Command* Command::find_command(std::string_view name) const {
  const auto found = std::ranges::find_if(commands_, [&](const auto& command) { return command->name_ == name; });
  return found == commands_.end() ? nullptr : found->get();
}

bool Command::is_given() const { return parent_ == nullptr || (app_->parsed() && parent_->is_given()); }

bool Command::gives(std::string_view option) const {
  return std::ranges::any_of(options_, [&](const auto& one) { return one->name() == option && one->is_given(); });
}

const Command& Command::given_command() const {
  const auto found = std::ranges::find_if(commands_, [](const auto& command) { return command->is_given(); });
  return found == commands_.end() ? *this : (*found)->given_command();
}

}  // namespace attest
