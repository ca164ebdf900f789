#include "kernels/selectors/cuda_registry.h"

namespace attest {
namespace {

struct Entry {
  std::string_view name;
  std::unique_ptr<CudaSelector> (*make)(OptionReader&);
};
constexpr Entry kSelectors[] = {{"exact", make_cuda_exact},
                                {"ffd", make_cuda_ffd},
                                {"quest", make_cuda_quest},
                                {"kivi", make_cuda_kivi},
                                {"twilight", make_cuda_twilight},
                                {"streaming_llm", make_cuda_streaming_llm},
                                {"topk", make_cuda_topk},
                                {"topp", make_cuda_topp},
                                {"topdelta", make_cuda_topdelta},
                                {"sparq", make_cuda_sparq},
                                {"sale", make_cuda_sale}};

}  // namespace

std::unique_ptr<CudaSelector> make_cuda_selector(const Selector& selector) {
  for (const Entry& entry : kSelectors)
    if (entry.name == selector.name()) {
      SelectorSpec spec{.label = {}, .name = std::string(selector.name()), .options = {}};
      for (const OptionValue& option : selector.options()) spec.options.emplace_back(option.name, option.value);
      OptionReader reader(spec);
      return entry.make(reader);
    }
  return nullptr;
}

}  // namespace attest
