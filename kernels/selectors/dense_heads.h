// The option dense_heads: KV heads in which a selector is exact.
#pragma once

#include <compare>
#include <set>
#include <string_view>

namespace attest {

/// A KV head of a model.
struct DenseHead {
  int layer = 0, kv_head = 0;
  auto operator<=>(const DenseHead&) const = default;
};

using DenseHeads = std::set<DenseHead>;

inline constexpr const char* kDenseHeadsOption = "dense_heads";

/// What `text` must be, for messages.
inline constexpr const char* kDenseHeadsForm = "KV heads as LAYER:HEAD joined by '+', such as 7:1+5:0";

/// "7:1+5:0"; "" has none. Returns false for anything else, and for a head that is there twice.
bool parse_dense_heads(std::string_view text, DenseHeads& out);

}  // namespace attest
