// Adds the options, and makes selectors of what was typed.
#include "experiments/cli/selector_grids.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "dumps/base/error.h"
#include "experiments/cli/checks.h"
#include "experiments/cli/grid.h"
#include "experiments/cli/selector_argument.h"
#include "experiments/cli/study_run.h"
#include "kernels/selectors/registry.h"

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

}  // namespace

void add_selector_options(CLI::App& command, SelectorGrids& options) {
  command
      .add_option("--selector", options.selectors, "[LABEL=]NAME[:option=value,...]; may be repeated ('attest list')")
      ->allow_extra_args(false)
      ->type_name("SELECTOR");
  for (const SettingKindInfo& info : kSettingKinds)
    if (info.kind != SettingKind::none)
      command
          .add_option(fmt::format("--{}", info.name), options.grids[info.kind],
                      fmt::format("Grid of {}: a,b,c or start:stop:step (default {})", info.valid, info.default_grid))
          ->multi_option_policy(CLI::MultiOptionPolicy::Join)
          ->transform(text_that_is(fmt::format("a list such as {}", info.default_grid)))
          ->type_name("GRID");
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

void join_list(std::string& text) { std::ranges::replace(text, '\n', ','); }

void join_lists(SelectorGrids& options) {
  for (auto& [kind, text] : options.grids) join_list(text);
}

}  // namespace attest
