// Numbers and items in typed text.
#pragma once

#include <algorithm>
#include <charconv>
#include <concepts>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace attest {

/// The number at the start of `text`, which is taken off; empty without one. Floating-point numbers may be NaN.
template <class Number>
std::optional<Number> take_number(std::string_view& text, std::chars_format format = std::chars_format::general) {
  Number number{};
  const char* const end = text.data() + text.size();
  std::from_chars_result taken{};
  if constexpr (std::floating_point<Number>)
    taken = std::from_chars(text.data(), end, number, format);
  else
    taken = std::from_chars(text.data(), end, number);
  if (taken.ec != std::errc{}) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(taken.ptr - text.data()));
  return number;
}

/// `text` as a number; empty if anything else is in it.
template <class Number>
std::optional<Number> parse_number(std::string_view text, std::chars_format format = std::chars_format::general) {
  const std::optional<Number> number = take_number<Number>(text, format);
  return text.empty() ? number : std::nullopt;
}

/// The same for a number of at least 0.
template <class Number>
std::optional<Number> parse_whole(std::string_view text) {
  const std::optional<Number> number = parse_number<Number>(text);
  return number && *number >= 0 ? number : std::nullopt;
}

/// The index at the start of `text`, which is taken off; empty without one.
inline std::optional<int> take_index(std::string_view& text) {
  const std::optional<int> index = take_number<int>(text);
  return index && *index >= 0 ? index : std::nullopt;
}

/// The index below `count` of which `name` is the usual spelling: "7", but neither "07" nor "+7".
inline std::optional<int> parse_index(std::string_view name, int count = std::numeric_limits<int>::max()) {
  const std::optional<int> index = parse_whole<int>(name);
  return index && *index < count && std::to_string(*index) == name ? index : std::nullopt;
}

/// Takes `begin` off the start of `text`; false if it does not stand there.
inline bool take(std::string_view& text, std::string_view begin) {
  if (!text.starts_with(begin)) return false;
  text.remove_prefix(begin.size());
  return true;
}

/// What stands between the separators: "a,,b" has three items, "" one.
inline std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> items;
  for (;;) {
    const std::size_t at = text.find(separator);
    items.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return items;
    text.remove_prefix(at + 1);
  }
}

/// Without the spaces at both ends.
inline std::string_view trimmed(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  text.remove_suffix(text.size() - (text.find_last_not_of(' ') + 1));
  return text;
}

/// split() for a typed list of numbers: without the spaces around them, which a list of names may have.
inline std::vector<std::string_view> trimmed_items(std::string_view text, char separator = ',') {
  std::vector<std::string_view> items = split(text, separator);
  for (std::string_view& item : items) item = trimmed(item);
  return items;
}

}  // namespace attest
