// All formats of kv_format_list.h.
#include "kernels/kv_formats/kv_format.h"

#include <algorithm>

#include "dumps/attention_layer.h"
#include "kernels/kv_formats/kv_format_list.h"

namespace attest {

#define ATTEST_DECLARE(name) extern const KvFormat kv_##name;
ATTEST_KV_FORMATS(ATTEST_DECLARE)
#undef ATTEST_DECLARE

namespace {
#define ATTEST_ADDRESS(name) &kv_##name,
constexpr const KvFormat* kFormats[] = {ATTEST_KV_FORMATS(ATTEST_ADDRESS)};
#undef ATTEST_ADDRESS
}  // namespace

KvRows kv_rows(const KvShape& kv, bool keys, bool rotate, ElementType element_type) {
  return {.keys = keys,
          .channels = keys ? kv.head_dim : kv.value_dim,
          .shared_values = kv.values_in_keys ? kv.value_dim : 0,
          .rotate = rotate,
          .element_type = element_type};
}

std::span<const KvFormat* const> kv_formats() { return kFormats; }

const KvFormat* find_kv_format(std::string_view name) {
  const auto found = std::ranges::find_if(kFormats, [&](const KvFormat* format) { return format->name == name; });
  return found == std::ranges::end(kFormats) ? nullptr : *found;
}

}  // namespace attest
