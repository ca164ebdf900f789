// Damage of single bytes, lengths and addresses, for any format.
#pragma once

#include <cstdint>
#include <string>

#include "tests/fuzz/fuzz_target.h"

namespace attest::fuzz {

/// Numbers at which readers make mistakes.
inline constexpr std::uint64_t kOddNumbers[]{0,
                                             1,
                                             2,
                                             7,
                                             0x7F,
                                             0xFF,
                                             0x7FFF,
                                             0xFFFF,
                                             0x7FFFFFFF,
                                             0x80000000,
                                             0xFFFFFFFF,
                                             std::uint64_t{1} << 32,
                                             std::uint64_t{1} << 62,
                                             std::uint64_t{1} << 63,
                                             ~std::uint64_t{0} - 7,
                                             ~std::uint64_t{0}};

/// Up to `maximum` kinds of damage between the bytes `begin` and the end.
inline void damage_bytes(std::string& bytes, RandomStream& random, std::uint64_t maximum = 3, std::size_t begin = 0) {
  if (bytes.size() <= begin) return;
  const auto anywhere = [&] { return begin + random.below(bytes.size() - begin); };
  const auto overwrite = [&](std::size_t at, std::string with) {
    with.resize(std::min(with.size(), bytes.size() - at));
    bytes.replace(at, with.size(), with);
  };
  for (std::uint64_t times = 1 + random.below(maximum); times > 0; --times) {
    const std::size_t at = anywhere();
    switch (random.below(6)) {
      case 0:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << random.below(8)));
        break;
      case 1:
        bytes[at] = static_cast<char>(random.below(256));
        break;
      case 2: {
        const std::uint64_t number = any_of(random, kOddNumbers);
        overwrite(at, {reinterpret_cast<const char*>(&number), std::size_t{1} << random.below(4)});
        break;
      }
      case 3:  // one piece over another
        overwrite(at, bytes.substr(anywhere(), 1 + random.below(64)));
        break;
      case 4:
        overwrite(at, std::string(1 + random.below(32), '\0'));
        break;
      case 5: {  // an address elsewhere in the file
        const std::uint64_t address = anywhere();
        overwrite(at, {reinterpret_cast<const char*>(&address), 8});
        break;
      }
    }
  }
  if (random.below(12) == 0) bytes.resize(begin + random.below(bytes.size() - begin));
}

}  // namespace attest::fuzz
