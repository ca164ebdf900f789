#include "dumps/all_finite.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "dumps/parallel_slices.h"

namespace attest {
namespace {

/// True unless an element has all bits of `exponent` set, which NaN and infinity have and nothing else. Blocks, because a
/// loop without an exit is one that the compiler vectorises.
template <class Bits>
bool all_finite(const std::byte* values, std::size_t bytes, Bits exponent) {
  constexpr std::size_t kBlock = 4096;
  const std::size_t count = bytes / sizeof(Bits);
  for (std::size_t start = 0; start < count; start += kBlock) {
    const std::size_t end = std::min(count, start + kBlock);
    bool found = false;
    for (std::size_t i = start; i < end; ++i) {
      Bits bits;
      std::memcpy(&bits, values + i * sizeof(Bits), sizeof(Bits));
      found |= (bits & exponent) == exponent;
    }
    if (found) return false;
  }
  return true;
}

bool all_finite(ElementType type, const std::byte* values, std::size_t bytes) {
  switch (type) {
    case ElementType::float16: return all_finite<std::uint16_t>(values, bytes, 0x7C00u);
    case ElementType::bfloat16: return all_finite<std::uint16_t>(values, bytes, 0x7F80u);
    case ElementType::float32: return all_finite<std::uint32_t>(values, bytes, 0x7F800000u);
  }
  return false;
}

bool all_finite(ElementType type, const LayerBuffer& tensor) {
  std::atomic<bool> finite{true};
  parallel_slices(tensor.size(), [&](std::size_t begin, std::size_t end) {
    if (!all_finite(type, tensor.data() + begin, end - begin)) finite = false;
  });
  return finite;
}

}  // namespace

bool all_finite(const AttentionLayer& layer) {
  return all_finite(layer.element_type, layer.q) && all_finite(layer.element_type, layer.k) &&
         all_finite(layer.element_type, layer.v);
}

}  // namespace attest
