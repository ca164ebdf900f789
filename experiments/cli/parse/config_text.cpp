// parse_config by toml++.
#include "experiments/cli/parse/config_text.h"

#include <fmt/core.h>

#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "dumps/base/error.h"
#include "dumps/base/printable.h"
#include "plots/utf8.h"

namespace attest {
namespace {

constexpr std::size_t kMaxParts = 8;  // of a name; more than any command has

/// The end of the string that begins at `begin`, behind its quotes; npos if there is none.
std::size_t end_of_string(std::string_view text, std::size_t begin) {
  const char quote = text[begin];
  const bool is_long = text.substr(begin).starts_with(std::string(3, quote));
  for (std::size_t at = begin + (is_long ? 3 : 1); at < text.size(); ++at) {
    if (text[at] == '\\' && quote == '"') {
      ++at;
    } else if (!is_long && (text[at] == quote || text[at] == '\n')) {
      return at + 1;
    } else if (is_long && text.substr(at).starts_with(std::string(3, quote))) {
      return std::min(text.find_first_not_of(quote, at), at + 5);  // a long string may end in quotes of its own
    }
  }
  return std::string_view::npos;
}

/// Refuses names that toml++ would turn into tables within tables until the stack is full. Only dots of names stand
/// in a row: a number has one.
void check_names(std::string_view text, const std::string& path) {
  std::size_t dots = 0;
  int line = 1;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at + 1;
    if (text[at] == '"' || text[at] == '\'') end = end_of_string(text, at);
    if (text[at] == '#') end = text.find('\n', at);
    end = std::min(end, text.size());
    line += static_cast<int>(std::count(text.begin() + at, text.begin() + end, '\n'));
    if (text[at] == '.' && ++dots >= kMaxParts)
      throw InputError(fmt::format("{}, line {}: a name has more than {} parts", path, line, kMaxParts));
    if (std::string_view("\n=,[]{}").find(text[at]) != std::string_view::npos) dots = 0;
    at = end;
  }
}

class Entries {
 public:
  Entries(std::string_view text, const std::string& path) : path_(path), text_(text) {
    for (std::size_t at = 0; at <= text.size(); at = std::min(text.find('\n', at), text.size()) + 1)
      lines_.push_back(at);
  }

  std::vector<ConfigEntry> of(const toml::table& root) {
    add(root, {});
    std::ranges::sort(entries_, {}, [](const Placed& one) { return std::pair(one.entry.line, one.column); });
    std::vector<ConfigEntry> entries;
    for (Placed& one : entries_) entries.push_back(std::move(one.entry));
    return entries;
  }

 private:
  struct Placed {
    ConfigEntry entry;
    unsigned column = 0;
  };

  void add(const toml::table& table, const std::vector<std::string>& section) {
    for (const auto& [key, node] : table) {
      if (const toml::table* inner = node.as_table()) {
        std::vector<std::string> name = section;
        name.emplace_back(key.str());
        add(*inner, name);
        continue;
      }
      ConfigEntry entry{.section = section, .key = std::string(key.str()), .values = {}};
      entry.line = static_cast<int>(key.source().begin.line);
      entry.is_list = node.is_array();
      if (const toml::array* list = node.as_array())
        for (const toml::node& element : *list) entry.values.push_back(value_of(element));
      else
        entry.values.push_back(value_of(node));
      entries_.push_back({std::move(entry), key.source().begin.column});
    }
  }

  std::string value_of(const toml::node& node) const {
    const toml::source_region& source = node.source();
    if (node.is_array() || node.is_table())
      throw InputError(fmt::format("{}, line {}: a list has strings, numbers, true and false, found a {} in it", path_,
                                   source.begin.line, node.is_array() ? "list" : "table"));
    if (const auto* text = node.as_string()) return text->get();
    std::string typed(text_.substr(offset(source.begin), offset(source.end) - offset(source.begin)));
    if (!node.is_number()) return typed;
    const auto* whole = node.as_integer();
    if (whole != nullptr && typed.find_first_of("xob") != std::string::npos) return std::to_string(whole->get());
    std::erase(typed, '_');
    return typed.substr(typed.starts_with('+') ? 1 : 0);
  }

  /// The place of a position in the text. Its columns count characters of UTF-8.
  std::size_t offset(const toml::source_position& position) const {
    std::size_t at = lines_.at(position.line - 1);
    for (unsigned column = 1; column < position.column && at < text_.size(); ++column) do
        ++at;
      while (at < text_.size() && !begins_character(text_[at]));
    return at;
  }

  const std::string& path_;
  std::string_view text_;
  std::vector<std::size_t> lines_;  ///< where each begins
  std::vector<Placed> entries_;
};

}  // namespace

std::vector<ConfigEntry> parse_config(std::string_view text, const std::string& path) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  check_names(text, path);
  toml::table table;
  try {
    table = toml::parse(text);
  } catch (const toml::parse_error& error) {
    std::string words(error.description());
    if (!words.empty()) words[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(words[0])));
    const toml::source_position& place = error.source().begin;
    throw InputError(fmt::format("{}, line {}, column {}: {}", path, place.line, place.column, excerpt(words)));
  }
  return Entries(text, path).of(table);
}

}  // namespace attest
