// The header of a NumPy array file, versions 1 to 3.
// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace attest {

struct NpyHeader {
  std::string descr;  ///< type: "<f4"; "[...]" for a structured one
  bool fortran_order = false;
  std::vector<std::int64_t> shape;
  std::size_t bytes = 0;  ///< of the header; the values follow
};

/// A longer header is refused: NumPy itself writes less than 200 bytes for what a dump can hold.
inline constexpr std::size_t kLongestNpyHeader = std::size_t{1} << 16;

/// `start` is the beginning of the file, at least its header or kLongestNpyHeader bytes. Throws InputError, whose
/// sentence begins with `place`.
NpyHeader parse_npy_header(std::span<const std::byte> start, const std::string& place);

}  // namespace attest
