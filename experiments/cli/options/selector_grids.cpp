// Adds the options, and makes selectors of what was typed.
#include "experiments/cli/options/selector_grids.h"

#include <fmt/core.h>

#include <algorithm>

#include "dumps/base/error.h"
#include "experiments/cli/options/grid.h"
#include "experiments/cli/parse/checks.h"
#include "kernels/selectors/registry.h"
#include "kernels/selectors/selector_text.h"

namespace attest {
namespace {

std::vector<SelectorSpec> selector_specs(const std::vector<std::string>& typed) {
  std::vector<SelectorSpec> specs;
  for (const std::string& text : typed) specs.push_back(parse_selector(text));
  if (specs.empty())
    for (const SelectorInfo* info : all_selectors())
      if (info->studied_by_default) specs.push_back({std::string(info->name), std::string(info->name), {}});
  for (std::size_t i = 0; i < specs.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (specs[i].label == specs[j].label)
        throw UsageError(
            fmt::format("--selector: two selectors have the label '{}'; give one another: --selector LABEL={}",
                        specs[i].label, specs[i].name));
  return specs;
}

constexpr std::string_view kLabelCharacters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";

[[noreturn]] void reject(std::string_view text, std::string_view why) {
  throw UsageError(fmt::format("--selector: '{}': {}; expected [LABEL=]NAME[:option=value,...]", text, why));
}

}  // namespace

void add_selector_options(Command& command, SelectorGrids& options) {
  command.option("--selector", options.selectors, "[LABEL=]NAME[:option=value,...]; may be repeated ('attest list')")
      .one_each_time()
      .type("SELECTOR");
  for (const SettingKindInfo& info : kSettingKinds)
    if (info.kind != SettingKind::none)
      command
          .option(fmt::format("--{}", info.name), options.grids[info.kind],
                  fmt::format("Grid of {}: a,b,c or start:stop:step (default {})", info.valid, info.default_grid))
          .joined()
          .takes(text_that_is(fmt::format("a list such as {}", info.default_grid)))
          .type("GRID");
}

std::shared_ptr<Selector> make_typed_selector(const SelectorSpec& spec) {
  try {
    return make_selector(spec);
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("--selector: {}", error.what()));
  }
}

std::vector<StudySelector> chosen_selectors(const SelectorGrids& options) {
  std::map<SettingKind, Grid> grids;  // those that were typed
  for (const auto& [kind, text] : options.grids)
    if (!text.empty()) grids[kind] = parse_grid(kind, text);
  std::vector<StudySelector> selectors;
  for (const SelectorSpec& spec : selector_specs(options.selectors)) {
    std::shared_ptr<Selector> selector = make_typed_selector(spec);
    const auto typed = grids.find(selector->setting_kind());
    const Grid grid = typed != grids.end() ? typed->second : default_grid(*selector);
    selectors.push_back(make_study_selector(spec.label, std::move(selector), grid.settings, grid.labels));
    selectors.back().by_default = options.selectors.empty();
  }
  return selectors;
}

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
