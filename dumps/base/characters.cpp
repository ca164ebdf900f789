// Decodes UTF-8.
#include "dumps/base/characters.h"

namespace attest {

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
  constexpr char32_t kMin[]{0, 0, 0x80, 0x800, 0x10000};  // of each size; fewer bytes would do below
  if (number < kMin[size] || number > 0x10ffff || (number >= 0xd800 && number < 0xe000)) return {};
  return {number, size};
}

bool is_control(char32_t c) {
  const auto in = [c](char32_t first, char32_t last) { return c >= first && c <= last; };
  return in(0, 0x1f) || in(0x7f, 0x9f) || c == 0xad || c == 0x61c || in(0x200b, 0x200f) || in(0x2028, 0x202e) ||
         in(0x2060, 0x206f) || c == 0xfeff || in(0xfff9, 0xfffb) || in(0xe0000, 0xe007f);
}

}  // namespace attest
