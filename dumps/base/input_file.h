// A regular file opened for reading at any offset.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "dumps/base/file_descriptor.h"

namespace attest {

class InputFile {
 public:
  /// Throws InputError when the file is missing, unreadable or not a regular file (a pipe would block for ever).
  explicit InputFile(const std::string& path);

  const std::string& path() const { return path_; }
  int descriptor() const { return descriptor_.get(); }
  std::uint64_t size() const { return size_; }
  /// Bytes on disk, at most size(): fewer if the file has holes.
  std::uint64_t stored_bytes() const { return stored_bytes_; }

  /// Fills `out` from `offset`. Throws InputError when the file ends early or cannot be read. Thread-safe.
  void read(std::uint64_t offset, std::span<std::byte> out) const;

 private:
  std::string path_;
  FileDescriptor descriptor_;
  std::uint64_t size_ = 0;
  std::uint64_t stored_bytes_ = 0;
};

/// Little-endian number of sizeof(Integer) bytes.
template <class Integer>
Integer little_endian(const std::byte* bytes) {
  Integer value = 0;
  for (std::size_t i = sizeof(Integer); i-- > 0;)
    value = static_cast<Integer>(value << 8 | static_cast<Integer>(std::to_integer<std::uint8_t>(bytes[i])));
  return value;
}

}  // namespace attest
