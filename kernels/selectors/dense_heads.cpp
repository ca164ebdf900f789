// Parses dense_heads.
#include "kernels/selectors/dense_heads.h"

#include <charconv>
#include <utility>

namespace attest {
namespace {

/// Takes a number without sign from the front of `text`.
bool take_number(std::string_view& text, int& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc{} || out < 0) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

bool take(std::string_view& text, char expected) {
  if (text.empty() || text.front() != expected) return false;
  text.remove_prefix(1);
  return true;
}

}  // namespace

bool parse_dense_heads(std::string_view text, DenseHeads& out) {
  DenseHeads heads;
  if (!text.empty()) do {
      DenseHead head;
      if (!take_number(text, head.layer) || !take(text, ':') || !take_number(text, head.kv_head)) return false;
      if (!heads.insert(head).second) return false;
    } while (take(text, '+'));
  if (!text.empty()) return false;
  out = std::move(heads);
  return true;
}

}  // namespace attest
