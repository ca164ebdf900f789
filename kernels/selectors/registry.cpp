// An explicit list: a selector that registered itself from a static library would be dropped by the linker.
#include "kernels/selectors/registry.h"

#include <array>

#include "dumps/base/error.h"

namespace attest {

extern const SelectorInfo exact_info, ffd_info, quest_info, kivi_info, twilight_info, streaming_llm_info, topk_info,
    topp_info, topdelta_info, sparq_info, double_sparsity_info, sale_info;

namespace {
constexpr std::array kSelectors = {&exact_info,           &ffd_info,  &quest_info, &kivi_info,     &twilight_info,
                                   &streaming_llm_info,   &topk_info, &topp_info,  &topdelta_info, &sparq_info,
                                   &double_sparsity_info, &sale_info};
}

std::span<const SelectorInfo* const> all_selectors() { return kSelectors; }

std::unique_ptr<Selector> make_selector(const SelectorSpec& spec) {
  std::vector<std::string> known;
  for (const SelectorInfo* info : kSelectors) {
    if (info->name == spec.name) {
      OptionReader reader(spec);
      return info->make(reader);
    }
    known.emplace_back(info->name);
  }
  throw UsageError("unknown selector '" + spec.name + "'; nearest: " + nearest_names(spec.name, known));
}

}  // namespace attest
