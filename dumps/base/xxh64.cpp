#include "dumps/base/xxh64.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace attest {
namespace {

static_assert(std::endian::native == std::endian::little);

// The names of the specification.
constexpr std::uint64_t kPrime1 = 0x9E3779B185EBCA87u;
constexpr std::uint64_t kPrime2 = 0xC2B2AE3D27D4EB4Fu;
constexpr std::uint64_t kPrime3 = 0x165667B19E3779F9u;
constexpr std::uint64_t kPrime4 = 0x85EBCA77C2B2AE63u;
constexpr std::uint64_t kPrime5 = 0x27D4EB2F165667C5u;

template <class Word>
std::uint64_t load(const std::byte* from) {
  Word word;
  std::memcpy(&word, from, sizeof word);
  return word;
}

std::uint64_t round(std::uint64_t lane, std::uint64_t input) { return std::rotl(lane + input * kPrime2, 31) * kPrime1; }

std::uint64_t merge(std::uint64_t hash, std::uint64_t lane) { return (hash ^ round(0, lane)) * kPrime1 + kPrime4; }

}  // namespace

void Xxh64::consume(const std::byte* stripe) {
  for (std::size_t i = 0; i < lanes_.size(); ++i) lanes_[i] = round(lanes_[i], load<std::uint64_t>(stripe + 8 * i));
}

void Xxh64::update(std::span<const std::byte> bytes) {
  total_ += bytes.size();
  const std::byte* at = bytes.data();
  std::size_t left = bytes.size();
  if (num_pending_ > 0) {
    const std::size_t taken = std::min(left, kStripe - num_pending_);
    std::copy_n(at, taken, pending_.data() + num_pending_);
    num_pending_ += taken;
    at += taken;
    left -= taken;
    if (num_pending_ < kStripe) return;
    consume(pending_.data());
    num_pending_ = 0;
  }
  for (; left >= kStripe; at += kStripe, left -= kStripe) consume(at);
  std::copy_n(at, left, pending_.data());
  num_pending_ = left;
}

std::uint64_t Xxh64::digest() const {
  std::uint64_t hash = kPrime5;
  if (total_ >= kStripe) {
    hash = std::rotl(lanes_[0], 1) + std::rotl(lanes_[1], 7) + std::rotl(lanes_[2], 12) + std::rotl(lanes_[3], 18);
    for (const std::uint64_t lane : lanes_) hash = merge(hash, lane);
  }
  hash += total_;
  const std::byte* at = pending_.data();
  std::size_t left = num_pending_;
  for (; left >= 8; at += 8, left -= 8)
    hash = std::rotl(hash ^ round(0, load<std::uint64_t>(at)), 27) * kPrime1 + kPrime4;
  for (; left >= 4; at += 4, left -= 4)
    hash = std::rotl(hash ^ (load<std::uint32_t>(at) * kPrime1), 23) * kPrime2 + kPrime3;
  for (; left >= 1; ++at, --left) hash = std::rotl(hash ^ (load<std::uint8_t>(at) * kPrime5), 11) * kPrime1;
  hash = (hash ^ (hash >> 33)) * kPrime2;
  hash = (hash ^ (hash >> 29)) * kPrime3;
  return hash ^ (hash >> 32);
}

std::uint64_t xxh64(std::span<const std::byte> bytes) {
  Xxh64 hash;
  hash.update(bytes);
  return hash.digest();
}

std::string hex_digest(std::uint64_t hash) { return fmt::format("{:016x}", hash); }

}  // namespace attest
