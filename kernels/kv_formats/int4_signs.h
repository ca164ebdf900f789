// The signs of int4_token_head, drawn by torch's CPU generator in the released code: sign i is bit i, the lowest bit of
// a nibble first; 1 is +1.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace attest {

inline constexpr std::string_view kInt4Signs = "d09537561b530808c6d3446a8345f7b618b84aa4144cfaba8489b0230a3402af";
inline constexpr int kInt4MaxChannels = 4 * static_cast<int>(kInt4Signs.size());

/// Sign i is bit i % 32 of word i / 32.
constexpr std::array<std::uint32_t, kInt4MaxChannels / 32> int4_sign_words() {
  std::array<std::uint32_t, kInt4MaxChannels / 32> words{};
  for (std::size_t i = 0; i < kInt4Signs.size(); ++i) {
    const char digit = kInt4Signs[i];
    const auto nibble = static_cast<std::uint32_t>(digit <= '9' ? digit - '0' : digit - 'a' + 10);
    words[i / 8] |= nibble << (i % 8 * 4);
  }
  return words;
}

}  // namespace attest
