// Parses the argument of --selector.
#include "experiments/cli/selector_argument.h"

#include <fmt/format.h>

#include "dumps/base/error.h"

namespace attest {
namespace {

constexpr std::string_view kLabelCharacters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";

[[noreturn]] void reject(std::string_view text, std::string_view why) {
  throw UsageError(fmt::format("--selector: '{}': {}; expected [LABEL=]NAME[:option=value,...]", text, why));
}

}  // namespace

SelectorSpec parse_selector(std::string_view text) {
  SelectorSpec spec{.label = std::string(text), .name = {}, .options = {}};
  std::string_view rest = text;
  const std::size_t equals = rest.find('=');
  const std::size_t colon = rest.find(':');
  if (equals < colon) {
    spec.label = rest.substr(0, equals);
    if (spec.label.empty() || spec.label.find_first_not_of(kLabelCharacters) != std::string::npos)
      reject(text, fmt::format("the label '{}' is not made of letters, digits, '_', '.' and '-'", spec.label));
    rest.remove_prefix(equals + 1);
  } else if (spec.label.find('/') != std::string::npos) {
    reject(text, "it holds a '/', so it needs a label of its own");
  }
  if (spec.label == "scores" || spec.label == "layers" || spec.label == "query_positions" || spec.label == ".")
    reject(text, fmt::format("the label must not be '{}', which results files use for something else", spec.label));

  const std::size_t end_of_name = rest.find(':');
  spec.name = rest.substr(0, end_of_name);
  if (spec.name.empty()) reject(text, "it names no selector");
  if (end_of_name == std::string_view::npos) return spec;
  rest.remove_prefix(end_of_name + 1);
  for (;;) {
    const std::size_t comma = rest.find(',');
    const std::string_view option = rest.substr(0, comma);
    const std::size_t assignment = option.find('=');
    if (assignment == std::string_view::npos || assignment == 0)
      reject(text, fmt::format("'{}' is no option=value", option));
    spec.options.emplace_back(option.substr(0, assignment), option.substr(assignment + 1));
    if (comma == std::string_view::npos) return spec;
    rest.remove_prefix(comma + 1);
  }
}

}  // namespace attest
