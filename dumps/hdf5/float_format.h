// Element types of HDF5: the floats that files of ours hold, and a type in words. Callers hold a Lock or run in a
// guarded child.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "dumps/hdf5/handle.h"

namespace attest::hdf5 {

/// The properties that identify a little-endian float without padding; places are bits.
struct FloatFormat {
  std::size_t bytes, sign, exponent, exponent_bits, mantissa, mantissa_bits, bias;
  bool operator==(const FloatFormat&) const = default;
};
inline constexpr FloatFormat kFloat16{2, 15, 10, 5, 0, 10, 15};
inline constexpr FloatFormat kBfloat16{2, 15, 7, 8, 0, 7, 127};
inline constexpr FloatFormat kFloat32{4, 31, 23, 8, 0, 23, 127};
inline constexpr FloatFormat kFloat64{8, 63, 52, 11, 0, 52, 1023};

/// Nothing for any other type.
std::optional<FloatFormat> plain_float(hid_t type);

/// float16, bfloat16 or float32.
Handle make_type(const FloatFormat& format);

/// "little-endian integer of 16 bits", "string".
std::string describe(hid_t type);

bool fills_its_bytes(hid_t type);

}  // namespace attest::hdf5
