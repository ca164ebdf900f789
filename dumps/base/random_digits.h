// Digits for names that nobody can guess.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <random>
#include <string>

namespace attest {

inline constexpr std::size_t kRandomDigits = 16;

/// 64 random bits in hexadecimal.
inline std::string random_digits() {
  std::random_device random;
  const std::uint64_t bits = std::uint64_t{random()} << 32 | random();
  return fmt::format("{:0{}x}", bits, kRandomDigits);
}

}  // namespace attest
