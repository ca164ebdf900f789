// XXH64 of bytes, by libxxhash: a fast content hash, the same that `xxhsum -H1 FILE` prints. It detects damage and
// mixed-up files, but not forgery. Only content_hash.cpp includes the library's header, which contains all of the
// library's code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace attest {

/// Hash of a stream of bytes, with seed 0. It does not depend on how the stream is divided among calls of update().
class ContentHash {
 public:
  ContentHash();
  ~ContentHash();
  ContentHash(const ContentHash&) = delete;
  ContentHash& operator=(const ContentHash&) = delete;

  void update(std::span<const std::byte> bytes);
  /// Hash of all bytes so far.
  std::uint64_t digest() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::uint64_t hash_of(std::span<const std::byte> bytes);

/// Sixteen lower-case hexadecimal digits, as xxhsum prints them.
std::string hex_digits(std::uint64_t hash);

}  // namespace attest
