// The list of all selectors.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "kernels/device/on_cuda.h"
#include "kernels/kv_formats/kv_format.h"
#include "kernels/selectors/selector.h"

namespace attest {

/// Static description of a selector. Each selector's file defines one.
struct SelectorInfo {
  std::string_view name;
  std::string_view summary;                       ///< one line
  std::string_view io_bytes;                      ///< formula of the bytes read per KV head (io_ratio)
  std::string_view source;                        ///< paper section, upstream code
  bool oracle = false;                            ///< its rule uses exact scores without counting their cost
  bool studied_by_default = false;                ///< used when the user names no selector
  bool takes_cache = true;                        ///< it may read a quantised cache (cached_selector.h)
  std::span<const KvFormat* const> formats = {};  ///< in which it may store keys and values
  std::unique_ptr<Selector> (*make)(OptionReader&);
};

/// SelectorInfo::make of a selector class.
template <class S>
std::unique_ptr<Selector> make_from_options(OptionReader& reader) {
  return std::make_unique<S>(reader);
}

/// A selector whose options, shared with its CUDA code, are a class of their own. make_cuda is the function that makes
/// that code from CudaOptions.
template <class Options, auto* make_cuda, class CudaOptions = Options>
class SelectorWith : public Selector, protected Options {
 public:
  std::shared_ptr<const CudaSelector> cuda_code() const override { return call_on_cuda<make_cuda, CudaOptions>(*this); }

 protected:
  explicit SelectorWith(OptionReader& reader) : Options(reader) {}
};

/// All selectors, in the order of registry.cpp.
std::span<const SelectorInfo* const> all_selectors();

/// Null for an unknown name.
const SelectorInfo* find_selector(std::string_view name);

/// Throws UsageError for an unknown name (with the nearest ones), option or value.
std::unique_ptr<Selector> make_selector(const SelectorSpec& spec);

}  // namespace attest
