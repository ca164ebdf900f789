// Random numbers as a function of a key and a counter: they do not depend on the order in which they are computed.
#pragma once

#include <cstdint>
#include <initializer_list>

namespace attest {

/// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014).
constexpr std::uint64_t kGoldenGamma = 0x9E3779B97F4A7C15u;
constexpr std::uint64_t mix_bits(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

/// The key of the stream that `words` identify.
constexpr std::uint64_t random_key(std::initializer_list<std::uint64_t> words) {
  std::uint64_t key = 0;
  for (const std::uint64_t word : words) key = mix_bits(key + kGoldenGamma + mix_bits(word + kGoldenGamma));
  return key;
}

/// The numbers of one key, in order.
class RandomStream {
 public:
  constexpr explicit RandomStream(std::uint64_t key) : state_(key) {}

  constexpr std::uint64_t bits() { return mix_bits(state_ += kGoldenGamma); }

  /// A number in [0, 1).
  constexpr double uniform() { return static_cast<double>(bits() >> 11) * 0x1p-53; }
  constexpr double uniform(double low, double high) { return low + (high - low) * uniform(); }

  /// A number in [0, bound); bound is above 0 and far below 2^64, so that the bias of the modulo does not matter.
  constexpr std::uint64_t below(std::uint64_t bound) { return bits() % bound; }

 private:
  std::uint64_t state_;
};

/// Sums of four bytes less their mean, two from each 64 bits: integers in [-510, 510] with a nearly normal distribution
/// of standard deviation kNoiseDeviation.
constexpr double kNoiseDeviation = 147.801;  // sqrt(4 (256^2 - 1) / 12)

struct NoisePair {
  std::int32_t first, second;
};

constexpr NoisePair noise_pair(std::uint64_t bits) {
  constexpr std::uint64_t even_bytes = 0x00FF00FF00FF00FFu;
  const std::uint64_t pairs = (bits & even_bytes) + ((bits >> 8) & even_bytes);
  const std::uint64_t sums = pairs + (pairs >> 16);
  return {static_cast<std::int32_t>(sums & 0xFFFF) - 510, static_cast<std::int32_t>((sums >> 32) & 0xFFFF) - 510};
}

}  // namespace attest
