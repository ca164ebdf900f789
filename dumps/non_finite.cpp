#include "dumps/non_finite.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace attest {
namespace {

/// True when any element has all bits of `exponent` set, which NaN and infinity have and nothing else.
template <class Bits>
bool any_non_finite(const std::byte* values, std::size_t count, Bits exponent) {
  bool found = false;
  for (std::size_t i = 0; i < count; ++i) {
    Bits bits;
    std::memcpy(&bits, values + i * sizeof(Bits), sizeof(Bits));
    found |= (bits & exponent) == exponent;
  }
  return found;
}

bool any_non_finite(ElementType type, const std::byte* values, std::size_t count) {
  switch (type) {
    case ElementType::float16: return any_non_finite<std::uint16_t>(values, count, 0x7C00u);
    case ElementType::bfloat16: return any_non_finite<std::uint16_t>(values, count, 0x7F80u);
    case ElementType::float32: return any_non_finite<std::uint32_t>(values, count, 0x7F800000u);
  }
  return false;
}

struct Found {
  std::size_t index = 0;
  bool is_nan = false;
};

/// Blocks first: a loop without an exit is one that the compiler vectorises.
std::optional<Found> find(ElementType type, const LayerBuffer& tensor) {
  constexpr std::size_t kBlock = 4096;
  const std::size_t size = size_of(type), count = tensor.size() / size;
  for (std::size_t start = 0; start < count; start += kBlock) {
    const std::size_t length = std::min(kBlock, count - start);
    const std::byte* block = tensor.data() + start * size;
    if (!any_non_finite(type, block, length)) continue;
    for (std::size_t i = 0; i < length; ++i) {
      float value = 0;
      convert_to_float(type, block + i * size, 1, &value);
      if (!std::isfinite(value)) return Found{start + i, std::isnan(value)};
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<NonFiniteValue> find_non_finite(const AttentionLayer& layer) {
  const auto heads = static_cast<std::size_t>(layer.shape.num_query_heads);
  const auto tokens = static_cast<std::size_t>(layer.num_tokens);
  const auto head_dim = static_cast<std::size_t>(layer.shape.head_dim);
  const auto value_dim = static_cast<std::size_t>(layer.shape.value_dim);
  if (const auto at = find(layer.element_type, layer.q))
    return NonFiniteValue{'q', static_cast<int>(at->index / head_dim % heads),
                          layer.query_positions[at->index / head_dim / heads],
                          static_cast<int>(at->index % head_dim), at->is_nan};
  for (const char tensor : {'k', 'v'}) {
    const std::size_t dim = tensor == 'k' ? head_dim : value_dim;
    if (const auto at = find(layer.element_type, tensor == 'k' ? layer.k : layer.v))
      return NonFiniteValue{tensor, static_cast<int>(at->index / dim / tokens),
                            static_cast<std::int64_t>(at->index / dim % tokens), static_cast<int>(at->index % dim),
                            at->is_nan};
  }
  return std::nullopt;
}

std::string describe(const NonFiniteValue& value) {
  return fmt::format("{} of {} {} at token {}, channel {}, is {}", value.tensor,
                     value.tensor == 'q' ? "query head" : "KV head", value.head, value.token, value.channel,
                     value.is_nan ? "NaN" : "Inf");
}

}  // namespace attest
