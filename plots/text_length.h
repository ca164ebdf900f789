// Length of a text as it is printed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>

namespace attest {

/// Characters of UTF-8, counted by their first bytes.
inline std::size_t characters(const std::string& text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

}  // namespace attest
