// Characters of UTF-8 text, by their first bytes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace attest {

inline bool begins_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U; }

/// How many characters the text has.
inline std::size_t characters(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, begins_character));
}

/// The first `maximum` characters, and the rest.
inline std::pair<std::string, std::string> split_characters(const std::string& text, std::size_t maximum) {
  std::size_t count = 0, at = 0;
  while (at < text.size() && !(begins_character(text[at]) && ++count > maximum)) ++at;
  return {text.substr(0, at), text.substr(at)};
}

}  // namespace attest
