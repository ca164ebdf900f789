// Text from untrusted files, made safe for messages and terminals.
#pragma once

#include <string>
#include <string_view>

namespace attest {

/// `text` with control characters (line breaks, terminal escapes) written as \xNN.
inline std::string printable(std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string result;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte != 0x7f) {
      result += c;
    } else {
      result += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  return result;
}

}  // namespace attest
