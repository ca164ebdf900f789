// Parses the argument of --selector.
#include "experiments/cli/selector_argument.h"

#include <fmt/format.h>

#include "dumps/base/error.h"
#include "kernels/selectors/selector_text.h"

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

  if (const std::string wrong = parse_selector_text(rest, spec); !wrong.empty()) reject(text, wrong);
  return spec;
}

}  // namespace attest
