// ContentHash by libxxhash.
#include "dumps/base/content_hash.h"

#include <fmt/core.h>

// Compiles the functions from the header itself, so that no library need be linked.
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace attest {
namespace {

constexpr XXH64_hash_t kSeed = 0;

}  // namespace

struct ContentHash::State {
  XXH64_state_t stream;
};

ContentHash::ContentHash() : state_(std::make_unique<State>()) { XXH64_reset(&state_->stream, kSeed); }

ContentHash::~ContentHash() = default;

void ContentHash::update(std::span<const std::byte> bytes) {
  XXH64_update(&state_->stream, bytes.data(), bytes.size());
}

std::uint64_t ContentHash::digest() const { return XXH64_digest(&state_->stream); }

std::uint64_t hash_of(std::span<const std::byte> bytes) { return XXH64(bytes.data(), bytes.size(), kSeed); }

std::string hex_digits(std::uint64_t hash) { return fmt::format("{:016x}", hash); }

}  // namespace attest
