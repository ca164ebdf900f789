// The function with which HDF5 compares checksums, in the place of its own.
#include "tests/fuzz/checksum_repair.h"

#include <dlfcn.h>

#include <cstring>
#include <string_view>

namespace attest::fuzz {
namespace {

struct Repaired {
  char* bytes = nullptr;
  std::size_t size = 0;
  std::uint64_t count = 0;
} repaired;

constexpr std::size_t kChecksum = sizeof(std::uint32_t);

/// Wherever the block is in the file.
void repair(std::string_view block, std::uint32_t checksum) {
  const std::string_view file(repaired.bytes, repaired.size);
  for (std::size_t at = 0; (at = file.find(block, at)) != file.npos; at += block.size()) {
    std::memcpy(repaired.bytes + at + block.size() - kChecksum, &checksum, kChecksum);
    ++repaired.count;
  }
}

}  // namespace

ChecksumRepair::ChecksumRepair(char* bytes, std::size_t size) { repaired = {bytes, size, 0}; }
ChecksumRepair::~ChecksumRepair() { repaired = {}; }
std::uint64_t ChecksumRepair::repairs() const { return repaired.count; }

}  // namespace attest::fuzz

/// `block` ends in its checksum.
extern "C" [[gnu::visibility("default")]] int H5F_get_checksums(const std::uint8_t* block, std::size_t size,
                                                                std::uint32_t* stored, std::uint32_t* computed) {
  using namespace attest::fuzz;
  static const auto original = reinterpret_cast<decltype(&H5F_get_checksums)>(dlsym(RTLD_NEXT, "H5F_get_checksums"));
  const int result = original(block, size, stored, computed);
  if (repaired.bytes == nullptr || stored == nullptr || computed == nullptr || *stored == *computed) return result;
  repair({reinterpret_cast<const char*>(block), size}, *computed);
  *stored = *computed;
  return result;
}
