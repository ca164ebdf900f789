// Sizes in bytes as people write them: "16GiB".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace attest {

/// A positive number and a unit (B, KB, MB, GB, TB; KiB, MiB, GiB, TiB, PiB or K, M, G, T; none: bytes). Nothing if
/// it is not.
std::optional<std::uint64_t> parse_byte_size(std::string_view text);

/// "512 B", "1.5 GiB": parse_byte_size() reads it, but for "0 B".
std::string byte_size_text(double bytes);

}  // namespace attest
