// Magnitudes of all three element types order like the integers of their bits.
#include "kernels/kv_formats/amax.h"

#include <cstdint>
#include <cstring>

namespace attest {
namespace {

template <class Word>
Word largest_bits(const std::byte* values, std::size_t count) {
  constexpr Word kMagnitude = static_cast<Word>(~Word{0}) >> 1;
  Word largest = 0;
  for (std::size_t i = 0; i < count; ++i) {
    Word bits;
    std::memcpy(&bits, values + i * sizeof(Word), sizeof(Word));
    const Word magnitude = bits & kMagnitude;
    largest = magnitude > largest ? magnitude : largest;
  }
  return largest;
}

}  // namespace

float max_magnitude(ElementType type, const std::byte* values, std::size_t count) {
  float out = 0;
  if (type == ElementType::float32) {
    const std::uint32_t bits = largest_bits<std::uint32_t>(values, count);
    std::memcpy(&out, &bits, sizeof out);
  } else {
    const std::uint16_t bits = largest_bits<std::uint16_t>(values, count);
    convert_to_float(type, reinterpret_cast<const std::byte*>(&bits), 1, &out);
  }
  return out;
}

}  // namespace attest
