// The list of formats. To add one, add its name to ATTEST_KV_FORMATS; its file defines kv_NAME.
#include "kernels/kv_formats/kv_format.h"

#include <algorithm>

#define ATTEST_KV_FORMATS(one)                                                                               \
  one(fp8_e4m3) one(fp8_e5m2) one(nvfp4) one(nvfp4_4over6) one(q8_0) one(q5_1) one(q5_0) one(q4_1) one(q4_0) \
      one(turboquant4) one(turboquant3) one(int4_token_head) one(fp8_ds_mla)

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
