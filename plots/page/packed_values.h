// Numbers as a page stores them: rounded to the decimal digits that are shown, then compressed. Real studies take
// about half a byte per number this way.
//
// A number becomes a whole number that grows with it: 1, 2, ... for multiples of 1e-7 of up to `digits` digits, then
// 9 * 10^(digits-1) codes for each power of ten. Sign in the last bit. Three bytes each, all first bytes before all
// second ones, in a zlib stream. packed_values.js reads it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace attest {

/// The smallest difference that is kept. Metrics are float32, whose rounding near 1 is 6e-8.
inline constexpr double kFinestStep = 1e-7;

inline constexpr std::uint32_t kPackedNaN = 0xffffff, kPackedInf = 0xfffffe, kPackedMinusInf = 0xfffffd;

/// Code of `value`, of the range of float32, rounded once to `digits` (1 to 5) significant digits or to a multiple of
/// kFinestStep, whichever is coarser.
std::uint32_t packed_code(double value, int digits);

/// Base64 of the compressed codes. `missing_to_one`: of 1 - x for each x.
std::string pack_values(std::span<const double> values, int digits, bool missing_to_one);

std::string base64(std::string_view bytes);

/// Base64 of `bytes` as a zlib stream.
std::string packed_bytes(const std::string& bytes);

}  // namespace attest
