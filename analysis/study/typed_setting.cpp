// Compares settings as typed with those of a study.
#include "analysis/study/typed_setting.h"

#include <optional>

#include "dumps/base/text_parts.h"

namespace attest {
namespace {

/// A number with or without '%'; empty for other texts.
std::optional<Setting> parse_setting(std::string_view text) {
  const bool percent = text.ends_with('%');
  if (percent) text.remove_suffix(1);
  const std::optional<double> value = parse_number<double>(text);
  return value ? std::optional(Setting{.value = *value, .percent = percent}) : std::nullopt;
}

}  // namespace

bool is_setting(const StudySelector& selector, std::size_t s, std::string_view typed) {
  return selector.setting_labels[s] == typed || parse_setting(typed) == selector.grid[s];
}

}  // namespace attest
