// Decodes UTF-8 and escapes what a terminal would not show as it is.
#include "dumps/base/printable.h"

#include <fmt/core.h>

#include <cstdint>

#include "dumps/base/characters.h"

namespace attest {
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

std::string_view cut_text(std::string_view text, std::size_t maximum) {
  if (text.size() <= maximum) return text;
  while (maximum > 0 && (static_cast<unsigned char>(text[maximum]) & 0xc0) == 0x80) --maximum;
  return text.substr(0, maximum);
}

std::string excerpt(std::string_view text, std::size_t maximum) {
  if (text.size() <= maximum) return printable(text);
  return printable(cut_text(text, maximum)) + "...";
}

}  // namespace attest
