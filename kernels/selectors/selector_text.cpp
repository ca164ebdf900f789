// Parses the text of a selector.
#include "kernels/selectors/selector_text.h"

#include <fmt/core.h>

#include "dumps/base/text_parts.h"

namespace attest {

std::string parse_selector_text(std::string_view text, SelectorSpec& out) {
  const std::size_t end_of_name = text.find(':');
  out.name = text.substr(0, end_of_name);
  if (out.name.empty()) return "it names no selector";
  if (end_of_name == std::string_view::npos) return {};
  text.remove_prefix(end_of_name + 1);
  for (const std::string_view option : split(text, ',')) {
    const std::size_t assignment = option.find('=');
    if (assignment == std::string_view::npos || assignment == 0) return fmt::format("'{}' is no option=value", option);
    out.options.emplace_back(option.substr(0, assignment), option.substr(assignment + 1));
  }
  return {};
}

std::string selector_text(const SelectorSpec& spec) {
  std::string text = spec.name;
  char separator = ':';
  for (const auto& [option, value] : spec.options) {
    text += fmt::format("{}{}={}", separator, option, value);
    separator = ',';
  }
  return text;
}

}  // namespace attest
