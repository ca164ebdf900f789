// Lists of names that may have commas themselves: --selectors.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

namespace attest {

/// The items of a list that was split at commas. An item may have commas itself: the longest that `is_item` knows is
/// taken. A part that begins no item stands for itself.
std::vector<std::string> joined_items(std::span<const std::string> parts,
                                      const std::function<bool(const std::string&)>& is_item);

}  // namespace attest
