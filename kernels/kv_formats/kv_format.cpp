// All formats of kv_format_list.h.
#include "kernels/kv_formats/kv_format.h"

#include <algorithm>

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

std::span<const KvFormat* const> kv_formats() { return kFormats; }

const KvFormat* find_kv_format(std::string_view name) {
  const auto found = std::ranges::find_if(kFormats, [&](const KvFormat* format) { return format->name == name; });
  return found == std::ranges::end(kFormats) ? nullptr : *found;
}

}  // namespace attest
