// Characters of text from untrusted files, which may be no UTF-8.
#pragma once

#include <cstddef>
#include <string_view>

namespace attest {

/// A character of UTF-8: its number, and its bytes; 0 bytes if the text does not begin with one.
struct Character {
  char32_t number = 0;
  std::size_t bytes = 0;
};

Character first_character(std::string_view text);

/// Whether it is a control character of ASCII or C1, or one that changes the direction of text, separates lines or is
/// not shown.
bool is_control(char32_t c);

}  // namespace attest
