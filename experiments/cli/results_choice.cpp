// Joins parts of lists, and compares settings as typed with those of a study.
#include "experiments/cli/results_choice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <optional>
#include <string_view>

namespace attest {
namespace {

/// A number with or without '%'; empty for other texts.
std::optional<Setting> parse_setting(std::string_view text) {
  Setting setting{.percent = text.ends_with('%')};
  if (setting.percent) text.remove_suffix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), setting.value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return setting;
}

}  // namespace

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

bool is_setting(const StudySelector& selector, std::size_t s, const std::string& typed) {
  return selector.setting_labels[s] == typed || parse_setting(typed) == selector.grid[s];
}

}  // namespace attest
