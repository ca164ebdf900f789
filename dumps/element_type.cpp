// Bulk conversions between float32 and the element types of a dump.
#include "dumps/element_type.h"

#include <cstring>

namespace attest {
namespace {

template <float (*Convert)(std::uint16_t)>
void widen(const std::byte* source, std::size_t count, float* target) {
  for (std::size_t i = 0; i < count; ++i) {
    std::uint16_t bits;
    std::memcpy(&bits, source + 2 * i, 2);
    target[i] = Convert(bits);
  }
}

template <std::uint16_t (*Convert)(float)>
void narrow(const float* source, std::size_t count, std::byte* target) {
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint16_t bits = Convert(source[i]);
    std::memcpy(target + 2 * i, &bits, 2);
  }
}

}  // namespace

void convert_to_float(ElementType type, const std::byte* source, std::size_t count, float* target) {
  switch (type) {
    case ElementType::float16:
      return widen<float16_to_float>(source, count, target);
    case ElementType::bfloat16:
      return widen<bfloat16_to_float>(source, count, target);
    case ElementType::float32:
      std::memcpy(target, source, 4 * count);
      return;
  }
}

void convert_from_float(ElementType type, const float* source, std::size_t count, std::byte* target) {
  switch (type) {
    case ElementType::float16:
      return narrow<float_to_float16>(source, count, target);
    case ElementType::bfloat16:
      return narrow<float_to_bfloat16>(source, count, target);
    case ElementType::float32:
      std::memcpy(target, source, 4 * count);
      return;
  }
}

}  // namespace attest
