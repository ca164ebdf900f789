// XXH64 (github.com/Cyan4973/xxHash, doc/xxhash_spec.md, seed 0): a fast content hash that `xxhsum -H1 FILE` repeats.
// It finds damage and mix-ups; it is no defence against a forger. Written out because no library that the project keeps
// has one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace attest {

/// Hash of a stream of bytes.
class Xxh64 {
 public:
  void update(std::span<const std::byte> bytes);
  std::uint64_t digest() const;

 private:
  static constexpr std::size_t kStripe = 32;
  void consume(const std::byte* stripe);

  std::array<std::uint64_t, 4> lanes_{0x60EA27EEADC0B5D6u, 0xC2B2AE3D27D4EB4Fu, 0u, 0x61C8864E7A143579u};
  std::array<std::byte, kStripe> pending_{};
  std::size_t num_pending_ = 0;
  std::uint64_t total_ = 0;
};

std::uint64_t xxh64(std::span<const std::byte> bytes);

/// Sixteen lower-case hexadecimal digits, as xxhsum prints them.
std::string hex_digest(std::uint64_t hash);

}  // namespace attest
