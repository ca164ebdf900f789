// Joins parts of lists.
#include "experiments/cli/results_choice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace attest {
std::vector<std::string> joined_items(std::span<const std::string> parts,
                                      const std::function<bool(const std::string&)>& is_item) {
  std::vector<std::string> items;
  while (!parts.empty()) {
    std::size_t length = parts.size();
    std::string item = fmt::format("{}", fmt::join(parts, ","));
    while (length > 1 && !is_item(item)) item = fmt::format("{}", fmt::join(parts.first(--length), ","));
    items.push_back(item);
    parts = parts.subspan(length);
  }
  return items;
}

}  // namespace attest
