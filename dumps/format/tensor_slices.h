// A tensor in parts that fit the cache: a thread reads one, then checks it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "dumps/format/dump_reader.h"

namespace attest {

/// The part [begin, end) of a tensor's bytes, and the offset of the tensor in the file; -1: it has been read already.
struct TensorSlice {
  std::int64_t file_offset;
  std::span<std::byte> tensor;
  std::size_t begin, end;

  std::span<std::byte> bytes() const { return tensor.subspan(begin, end - begin); }
  /// The elements that lie in the slice as a whole.
  std::span<const std::byte> elements(std::size_t element_bytes) const {
    const std::size_t first = (begin + element_bytes - 1) / element_bytes * element_bytes;
    const std::size_t last = end / element_bytes * element_bytes;
    return first < last ? tensor.subspan(first, last - first) : std::span<std::byte>();
  }
  /// The element that begins in the slice and ends in the next one; empty if the end is a border of elements.
  std::span<const std::byte> cut_element(std::size_t element_bytes) const {
    const std::size_t rest = end % element_bytes;
    return rest == 0 ? std::span<std::byte>() : tensor.subspan(end - rest, element_bytes);
  }
};

/// Divides a tensor at the borders of the file's blocks.
inline void add_slices(std::int64_t file_offset, std::span<std::byte> tensor, std::vector<TensorSlice>& slices) {
  std::size_t next_border = kFileBlock - (file_offset > 0 ? static_cast<std::uint64_t>(file_offset) % kFileBlock : 0);
  for (std::size_t begin = 0; begin < tensor.size(); next_border += kFileBlock) {
    const std::size_t end = std::min(next_border, tensor.size());
    slices.push_back({file_offset, tensor, begin, end});
    begin = end;
  }
}

}  // namespace attest
