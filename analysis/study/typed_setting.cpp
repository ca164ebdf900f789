// Compares settings as typed with those of a study.
#include "analysis/study/typed_setting.h"

#include <charconv>
#include <optional>

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

bool is_setting(const StudySelector& selector, std::size_t s, std::string_view typed) {
  return selector.setting_labels[s] == typed || parse_setting(typed) == selector.grid[s];
}

}  // namespace attest
