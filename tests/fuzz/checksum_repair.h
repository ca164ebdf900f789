// The blocks of HDF5's metadata have checksums, behind which a reader never sees what damage did to them. Here they are
// repaired while HDF5 reads, so that the input is what an attacker would have written.
#pragma once

#include <cstddef>
#include <cstdint>

namespace attest::fuzz {

/// While it lives, HDF5 finds the checksum of every block right, and one that was not is put right in `bytes`, a copy
/// of the file. It has no effect with an HDF5 that does not look for its own functions in the program; repairs() tells.
class ChecksumRepair {
 public:
  ChecksumRepair(char* bytes, std::size_t size);
  ~ChecksumRepair();
  ChecksumRepair(const ChecksumRepair&) = delete;
  ChecksumRepair& operator=(const ChecksumRepair&) = delete;

  std::uint64_t repairs() const;
};

}  // namespace attest::fuzz
