// The arithmetic in which a quantiser computes scales and codes.
#pragma once

#include <cstdint>

namespace attest {

/// `float32`: every step in float32. `dump`: intermediate results rounded to the dump's 16-bit type, as the released
/// quantisers do.
enum class QuantArithmetic : std::uint8_t { float32, dump };

}  // namespace attest
