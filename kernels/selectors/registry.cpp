// The list of selectors. To add one, add its name to ATTEST_SELECTORS; its file defines NAME_info.
#include "kernels/selectors/registry.h"

#include <algorithm>

#include "dumps/base/error.h"
#include "kernels/selectors/cached_selector.h"

// The list is explicit because selectors cannot register themselves: the linker drops object files of a static library
// that nothing references.
#define ATTEST_SELECTORS(one)                                                                                 \
  one(exact) one(ffd) one(quest) one(kivi) one(twilight) one(streaming_llm) one(topk) one(topp) one(topdelta) \
      one(skip_softmax) one(imported) one(sparq) one(double_sparsity) one(sale) one(kv_cache)

namespace attest {

#define ATTEST_DECLARE(name) extern const SelectorInfo name##_info;
ATTEST_SELECTORS(ATTEST_DECLARE)
#undef ATTEST_DECLARE

namespace {
#define ATTEST_ADDRESS(name) &name##_info,
constexpr const SelectorInfo* kSelectors[] = {ATTEST_SELECTORS(ATTEST_ADDRESS)};
#undef ATTEST_ADDRESS
}  // namespace

std::span<const SelectorInfo* const> all_selectors() { return kSelectors; }

const SelectorInfo* find_selector(std::string_view name) {
  const auto found = std::ranges::find_if(kSelectors, [&](const SelectorInfo* info) { return info->name == name; });
  return found == std::ranges::end(kSelectors) ? nullptr : *found;
}

std::unique_ptr<Selector> make_selector(const SelectorSpec& spec) {
  if (const SelectorInfo* info = find_selector(spec.name)) {
    OptionReader reader(spec);
    std::optional<CacheOptions> cache;
    if (info->takes_cache) cache = read_cache_options(reader);
    std::unique_ptr<Selector> selector = info->make(reader);
    return cache ? with_cache(std::move(selector), std::move(*cache)) : std::move(selector);
  }
  std::vector<std::string> known;
  for (const SelectorInfo* info : kSelectors) known.emplace_back(info->name);
  throw UsageError("unknown selector '" + spec.name + "'; nearest: " + nearest_names(spec.name, known));
}

}  // namespace attest
