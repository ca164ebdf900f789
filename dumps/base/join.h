// Lists and counts in messages.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace attest {

/// The values, each as fmt writes it, with `separator` between them.
template <class Values>
std::string join(const Values& values, std::string_view separator) {
  std::string text;
  bool first = true;
  for (const auto& value : values) {
    if (!first) text += separator;
    first = false;
    text += fmt::format("{}", value);
  }
  return text;
}

/// "a, b and 7 more": at most `maximum` of the values, each as `word` writes it.
template <class Values, class Word = std::identity>
std::string first_few(const Values& values, std::size_t maximum, std::string_view separator = ", ", Word word = {}) {
  std::string text;
  std::size_t shown = 0;
  for (auto value = values.begin(); value != values.end() && shown < maximum; ++value)
    text += fmt::format("{}{}", shown++ == 0 ? "" : separator, word(*value));
  if (shown == values.size()) return text;
  return fmt::format("{}{} and {} more", text, separator == ", " ? "" : ";", values.size() - shown);
}

/// "1 sample", "12 samples".
inline std::string counted(std::int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

/// A length in tokens: "256K", "2M", "1000".
inline std::string length_text(std::int64_t tokens) {
  constexpr std::int64_t kKibi = 1024, kMebi = kKibi * kKibi;
  if (tokens % kMebi == 0) return fmt::format("{}M", tokens / kMebi);
  return tokens % kKibi == 0 ? fmt::format("{}K", tokens / kKibi) : fmt::format("{}", tokens);
}

}  // namespace attest
