#include "kernels/selectors/cuda_registry.h"

namespace attest {
namespace {

/// For what follows from its options alone.
template <std::unique_ptr<CudaSelector> (*make)(OptionReader&)>
std::unique_ptr<CudaSelector> from_options(OptionReader& reader, const Selector&) {
  return make(reader);
}

struct Entry {
  std::string_view name;
  std::unique_ptr<CudaSelector> (*make)(OptionReader&, const Selector&);
};
constexpr Entry kSelectors[] = {
    {"exact", from_options<make_cuda_exact>},       {"ffd", from_options<make_cuda_ffd>},
    {"quest", from_options<make_cuda_quest>},       {"kivi", from_options<make_cuda_kivi>},
    {"twilight", from_options<make_cuda_twilight>}, {"streaming_llm", from_options<make_cuda_streaming_llm>},
    {"topk", from_options<make_cuda_topk>},         {"topp", from_options<make_cuda_topp>},
    {"topdelta", from_options<make_cuda_topdelta>}, {"sparq", from_options<make_cuda_sparq>},
    {"double_sparsity", make_cuda_double_sparsity}, {"sale", from_options<make_cuda_sale>}};

}  // namespace

std::unique_ptr<CudaSelector> make_cuda_selector(const Selector& selector) {
  for (const Entry& entry : kSelectors)
    if (entry.name == selector.name()) {
      SelectorSpec spec{.label = {}, .name = std::string(selector.name()), .options = {}};
      for (const OptionValue& option : selector.options()) spec.options.emplace_back(option.name, option.value);
      OptionReader reader(spec);
      return entry.make(reader, selector);
    }
  return nullptr;
}

}  // namespace attest
