// Parses and checks the options of a selector as given on the command line.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/base/setting.h"

namespace attest {

using OptionPairs = std::vector<std::pair<std::string, std::string>>;

/// What `attest list NAME` says about an option.
struct OptionText {
  std::string_view meaning;    ///< one line; for a choice, what its values mean
  std::string_view unit = "";  ///< of a number: "tokens"
};

/// An option of a selector: its value and, for `attest list`, its valid values.
struct OptionValue {
  std::string name;
  std::string value;
  std::string valid;
  OptionText text;
  std::vector<std::string> alternatives = {};  ///< the valid values if they are a few words or numbers
};

/// A selector as requested by the user: "[LABEL=]NAME[:option=value,...]".
struct SelectorSpec {
  std::string label;
  std::string name;
  OptionPairs options;
};

/// The names nearest to `word` among `known`, for an error's "did you mean": "'a', 'b' or 'c'".
std::string nearest_names(std::string_view word, const std::vector<std::string>& known);

/// Reads options one by one and records each with its value for the manifest. Every reader throws UsageError that names
/// selector, option, value and the valid values. The `text` must be of static storage. finish() throws for options that
/// no reader has read.
class OptionReader {
 public:
  explicit OptionReader(const SelectorSpec& spec) : spec_(spec) {}

  /// One of `valid`; the first is the default.
  std::string choice(const std::string& option, std::span<const std::string_view> valid, OptionText text);
  std::string choice(const std::string& option, std::initializer_list<std::string_view> valid, OptionText text) {
    return choice(option, std::span(valid.begin(), valid.size()), text);
  }
  /// The same for an enumeration whose values are 0, 1, ... in the order of `valid`.
  template <class Enum>
  Enum enumeration(const std::string& option, std::initializer_list<std::string_view> valid, OptionText text) {
    return static_cast<Enum>(index_of(choice(option, valid, text), valid));
  }
  /// One of a few whole numbers; the first is the default.
  int number(const std::string& option, std::initializer_list<int> valid, OptionText text);
  /// A whole number within [min, max].
  int integer(const std::string& option, int fallback, int min, int max, OptionText text);
  /// A number within [min, max].
  double real(const std::string& option, double fallback, double min, double max, OptionText text);
  /// Tokens ("8192") or a share of the visible keys ("25%").
  Setting budget(const std::string& option, std::string_view fallback, OptionText text);
  /// Any text.
  std::string text(const std::string& option, const std::string& fallback, OptionText text);

  /// Whether the user gave the option.
  bool given(const std::string& option) const { return find(option) != nullptr; }

  /// The selector's registered name.
  const std::string& selector() const { return spec_.name; }
  /// Throws for options that were given but never read.
  void finish() const;
  /// Every option that was read, with its value.
  const std::vector<OptionValue>& resolved() const { return resolved_; }

 private:
  static int index_of(const std::string& value, std::initializer_list<std::string_view> valid);
  const std::string* find(const std::string& option) const;
  [[noreturn]] void reject(const std::string& option, const std::string& value, const std::string& expected) const;

  SelectorSpec spec_;
  std::vector<OptionValue> resolved_;
};

/// Parses a budget of the command line: a positive whole number of tokens, or a percentage in (0, 100]. Returns false
/// for anything else.
bool parse_budget(std::string_view text, Setting& out);

}  // namespace attest
