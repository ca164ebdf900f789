// The list of all selectors.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "kernels/selectors/selector.h"

namespace attest {

/// What is known of a selector before it is made. Each selector's file defines one of these.
struct SelectorInfo {
  std::string_view name;
  std::string_view summary;         ///< one line
  std::string_view io_bytes;        ///< formula of the bytes read per KV head (io_ratio)
  std::string_view source;          ///< paper section, upstream code
  bool oracle = false;              ///< its rule reads exact scores that no real method has for free
  bool studied_by_default = false;  ///< in a study whose user names no selector
  std::unique_ptr<Selector> (*make)(OptionReader&);
};

/// All selectors, in the order in which they are listed.
std::span<const SelectorInfo* const> all_selectors();

/// Null for an unknown name.
const SelectorInfo* find_selector(std::string_view name);

/// Throws UsageError for an unknown name (with the nearest ones), option or value.
std::unique_ptr<Selector> make_selector(const SelectorSpec& spec);

}  // namespace attest
