// Reads zip archives with stored and deflated members, ZIP64 included.
// PKWARE .ZIP File Format Specification (APPNOTE) 6.3.10
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dumps/base/input_file.h"

namespace attest {

struct ZipMember {
  std::string name;
  bool deflated = false;              ///< else stored
  std::uint64_t data_offset = 0;      ///< in the file
  std::uint64_t compressed_size = 0;  ///< bytes in the file
  std::uint64_t size = 0;             ///< bytes once inflated; checked to be possible for compressed_size
  std::uint32_t crc32 = 0;
};

/// The members in the order of the central directory. Encrypted members, other methods, archives over several files,
/// and sizes or offsets beyond the file throw InputError.
std::vector<ZipMember> read_zip_directory(const InputFile& file);

/// The bytes of one member. Keeps a position: reading on is cheap, skipping forward inflates what is skipped, going
/// back in a deflated member starts again. `file` and `member` must outlive it.
class ZipMemberReader {
 public:
  ZipMemberReader(const InputFile& file, const ZipMember& member);
  ~ZipMemberReader();
  ZipMemberReader(ZipMemberReader&&) noexcept;

  /// offset + out.size() must not exceed member.size. Throws InputError for damaged data; a member that was read from
  /// its first to its last byte in order has had its checksum compared.
  void read(std::uint64_t offset, std::span<std::byte> out);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace attest
