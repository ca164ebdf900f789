// Decodes UTF-8 and escapes what a terminal would not show as it is.
#include "dumps/base/printable.h"

#include <fmt/core.h>

#include <cstdint>

namespace attest {
namespace {

/// A character of UTF-8: its number, and its bytes; 0 bytes if the text does not begin with one.
struct Character {
  char32_t number = 0;
  std::size_t bytes = 0;
};

Character first_character(std::string_view text) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  if (at(0) < 0x80) return {at(0), 1};
  const std::size_t size = at(0) >= 0xf0 ? 4 : at(0) >= 0xe0 ? 3 : 2;
  if (at(0) < 0xc2 || at(0) > 0xf4 || text.size() < size) return {};
  char32_t number = at(0) & (0x7f >> size);
  for (std::size_t i = 1; i < size; ++i) {
    if ((at(i) & 0xc0) != 0x80) return {};
    number = number << 6 | (at(i) & 0x3f);
  }
  constexpr char32_t kLeast[]{0, 0, 0x80, 0x800, 0x10000};  // of each size; fewer bytes would do below
  if (number < kLeast[size] || number > 0x10ffff || (number >= 0xd800 && number < 0xe000)) return {};
  return {number, size};
}

bool is_control(char32_t c) {
  const auto in = [c](char32_t first, char32_t last) { return c >= first && c <= last; };
  return in(0, 0x1f) || in(0x7f, 0x9f) || c == 0xad || c == 0x61c || in(0x200b, 0x200f) || in(0x2028, 0x202e) ||
         in(0x2060, 0x206f) || c == 0xfeff || in(0xfff9, 0xfffb) || in(0xe0000, 0xe007f);
}

}  // namespace

std::string printable(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const auto [number, bytes] = first_character(text);
    const std::size_t taken = bytes == 0 ? 1 : bytes;
    if (bytes == 0 || (is_control(number) && number < 0x80))
      result += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[0]));
    else if (is_control(number))
      result += number < 0x10000 ? fmt::format("\\u{:04x}", static_cast<std::uint32_t>(number))
                                 : fmt::format("\\U{:08x}", static_cast<std::uint32_t>(number));
    else
      result += text.substr(0, taken);
    text.remove_prefix(taken);
  }
  return result;
}

std::string as_utf8(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const std::size_t bytes = first_character(text).bytes;
    if (bytes == 0)
      result += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[0]));
    else
      result += text.substr(0, bytes);
    text.remove_prefix(bytes == 0 ? 1 : bytes);
  }
  return result;
}

std::string excerpt(std::string_view text, std::size_t most) {
  if (text.size() <= most) return printable(text);
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xc0) == 0x80) --most;  // no part of a character
  return printable(text.substr(0, most)) + "...";
}

}  // namespace attest
