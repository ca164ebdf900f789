// XXH64 of bytes, by libxxhash: a fast content hash that `xxhsum -H1 FILE` repeats. It finds damage and mix-ups; it is
// no defence against a forger. This pair is the one place that includes the library's header, which is all code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace attest {

/// Hash of a stream of bytes, with seed 0; the pieces in which they come change nothing.
class ContentHash {
 public:
  ContentHash();
  ~ContentHash();
  ContentHash(const ContentHash&) = delete;
  ContentHash& operator=(const ContentHash&) = delete;

  void update(std::span<const std::byte> bytes);
  /// Of what has come so far.
  std::uint64_t digest() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::uint64_t hash_of(std::span<const std::byte> bytes);

/// Sixteen lower-case hexadecimal digits, as xxhsum prints them.
std::string hex_digits(std::uint64_t hash);

}  // namespace attest
