// A parser by recursive descent, one method per element of the grammar.
#include "experiments/cli/config_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <utility>

#include "dumps/base/error.h"
#include "dumps/base/printable.h"

namespace attest {
namespace {

constexpr std::string_view kKeyCharacters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";

constexpr std::size_t kMostLevels = 8;  // more than any command has

bool is_number(std::string_view text) {
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  // Out of range is for the option's own check.
  return error != std::errc::invalid_argument && end == text.data() + text.size() && !text.starts_with('+');
}

class Parser {
 public:
  Parser(std::string_view text, const std::string& path) : rest_(text), path_(path) {
    constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
    if (rest_.starts_with(kByteOrderMark)) rest_.remove_prefix(kByteOrderMark.size());
  }

  std::vector<ConfigEntry> parse() {
    for (skip_lines(); !rest_.empty(); skip_lines()) {
      take('[') ? parse_section() : parse_entry();
      skip_spaces();
      if (!rest_.empty() && rest_[0] != '\n' && rest_[0] != '#') fail("after that", "the end of the line");
    }
    return std::move(entries_);
  }

 private:
  [[noreturn]] void fail(std::string_view sentence) const {
    throw InputError(fmt::format("{}, line {}: {}", path_, line_, sentence));
  }
  [[noreturn]] void fail(std::string_view where, std::string_view expected) const {
    const std::string_view found = rest_.substr(0, std::min<std::size_t>(rest_.find('\n'), 20));
    fail(fmt::format("expected {} {}, found {}", expected, where,
                     found.empty() ? "the end of the line" : fmt::format("'{}'", printable(found))));
  }

  bool take(char c) {
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void skip_spaces() {
    while (rest_.starts_with(' ') || rest_.starts_with('\t') || rest_.starts_with("\r\n")) rest_.remove_prefix(1);
  }
  /// Spaces, comments and line breaks.
  void skip_lines() {
    for (skip_spaces(); !rest_.empty() && (rest_[0] == '#' || rest_[0] == '\n'); skip_spaces()) {
      rest_.remove_prefix(std::min(rest_.find('\n'), rest_.size()));
      if (take('\n')) ++line_;
    }
  }

  std::string parse_key() {
    if (rest_.starts_with('"') || rest_.starts_with('\'')) return parse_string();
    const std::size_t size = std::min(rest_.find_first_not_of(kKeyCharacters), rest_.size());
    if (size == 0) fail("here", "a key or a [section]");
    const std::string key(rest_.substr(0, size));
    rest_.remove_prefix(size);
    return key;
  }

  std::vector<std::string> parse_dotted_key() {
    std::vector<std::string> keys;
    do {
      skip_spaces();
      keys.push_back(parse_key());
      skip_spaces();
      if (keys.size() > kMostLevels) fail(fmt::format("a name has more than {} parts", kMostLevels));
    } while (take('.'));
    return keys;
  }

  void parse_section() {
    if (rest_.starts_with('[')) fail("lists of sections, [[ ]], have no meaning here");
    const std::vector<std::string> name = parse_dotted_key();
    if (!take(']')) fail("after the section's name", "']'");
    const auto [place, is_new] = sections_.emplace(name, line_);
    if (!is_new)
      fail(fmt::format("the section [{}] is there already, in line {}",
                       excerpt(fmt::format("{}", fmt::join(name, "."))), place->second));
    section_ = name;
  }

  void parse_entry() {
    ConfigEntry entry;
    entry.line = line_;
    entry.section = section_;
    std::vector<std::string> key = parse_dotted_key();
    entry.key = std::move(key.back());
    entry.section.insert(entry.section.end(), key.begin(), key.end() - 1);
    if (!take('=')) fail("after the key", "'='");
    skip_spaces();
    entry.is_list = take('[');
    entry.is_list ? parse_list(entry.values) : entry.values.push_back(parse_value());
    const auto [place, is_new] = keys_.emplace(std::pair(entry.section, entry.key), entry.line);
    if (!is_new) fail(fmt::format("'{}' is there already, in line {}", excerpt(entry.key), place->second));
    entries_.push_back(std::move(entry));
  }

  void parse_list(std::vector<std::string>& values) {
    const int begin = line_;
    for (skip_lines(); !take(']'); skip_lines()) {
      values.push_back(parse_value());
      skip_lines();
      if (take(',') || rest_.starts_with(']')) continue;
      fail(fmt::format("in the list that begins in line {}", begin), "',' or ']'");
    }
  }

  std::string parse_value() {
    if (rest_.starts_with('"') || rest_.starts_with('\'')) return parse_string();
    const std::size_t size = std::min(rest_.find_first_of(" \t\r\n,]#"), rest_.size());
    const std::string word(rest_.substr(0, size));
    if (word != "true" && word != "false" && !is_number(word))
      fail("here", "a \"string\", a number, true, false or a [list]");
    rest_.remove_prefix(size);
    return word.starts_with('+') ? word.substr(1) : word;
  }

  std::string parse_string() {
    const char quote = rest_[0];
    std::string text;
    for (rest_.remove_prefix(1); !take(quote); rest_.remove_prefix(1)) {
      if (rest_.empty() || rest_[0] == '\n') fail(fmt::format("a string has no closing {}", quote));
      if (rest_[0] == '\\' && quote == '"') {
        rest_.remove_prefix(1);
        constexpr std::string_view kEscapes = "\"\\tn", kMeanings = "\"\\\t\n";
        const std::size_t escape = rest_.empty() ? std::string_view::npos : kEscapes.find(rest_[0]);
        if (escape == std::string_view::npos) fail("after a backslash", "\", \\, t or n ('strings' have no escapes)");
        text += kMeanings[escape];
      } else {
        text += rest_[0];
      }
    }
    return text;
  }

  std::string_view rest_;
  const std::string& path_;
  int line_ = 1;
  using Names = std::vector<std::string>;
  Names section_;                                      ///< the last one; empty before the first
  std::map<Names, int> sections_;                      ///< line of each
  std::map<std::pair<Names, std::string>, int> keys_;  ///< line of each key of a section
  std::vector<ConfigEntry> entries_;
};

}  // namespace

std::vector<ConfigEntry> parse_config(std::string_view text, const std::string& path) {
  return Parser(text, path).parse();
}

}  // namespace attest
