// Parses dense_heads.
#include "kernels/selectors/dense_heads.h"

#include <utility>

#include "dumps/base/text_parts.h"

namespace attest {

bool parse_dense_heads(std::string_view text, DenseHeads& out) {
  DenseHeads heads;
  if (!text.empty()) do {
      const std::optional<int> layer = take_index(text);
      const std::optional<int> kv_head = take(text, ":") ? take_index(text) : std::nullopt;
      if (!layer || !kv_head || !heads.insert({*layer, *kv_head}).second) return false;
    } while (take(text, "+"));
  if (!text.empty()) return false;
  out = std::move(heads);
  return true;
}

}  // namespace attest
