// Grids of settings for timing.
#include "experiments/bench/study/bench_settings.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "dumps/base/error.h"
#include "experiments/study_view/paper_settings.h"
#include "kernels/selectors/registry.h"
#include "kernels/selectors/selector_text.h"

namespace attest {
namespace {

std::vector<Setting> sweep(SettingKind kind, int points) {
  std::vector<Setting> grid;
  for (int i = 0; i < points && kind != SettingKind::none; ++i) {
    const double t = points > 1 ? static_cast<double>(i) / (points - 1) : 1;
    if (kind == SettingKind::delta) grid.push_back({1 + 11 * t});
    if (kind == SettingKind::budget) grid.push_back({100 * std::exp2(-6 * (1 - t)), true});
    if (kind == SettingKind::p) grid.push_back({0.5 + 0.499 * t});
    if (kind == SettingKind::factor) grid.push_back({std::pow(10.0, 4 * t)});
  }
  return grid;
}

}  // namespace

Study timed_study(const std::vector<std::string>& selectors, int sweep_points) {
  Study study;
  for (const std::string& text : selectors) {
    SelectorSpec spec{.label = text, .name = {}, .options = {}};
    if (const std::string wrong = parse_selector_text(text, spec); !wrong.empty())
      throw UsageError(fmt::format("--selector: {}", wrong));
    const auto gives_dense_layers = [](const auto& option) { return option.first == "dense_layers"; };
    if ((spec.name == "quest" || spec.name == "twilight") && !std::ranges::any_of(spec.options, gives_dense_layers))
      spec.options.emplace_back("dense_layers", "0");
    std::shared_ptr<Selector> selector = make_selector(spec);
    const SettingKind kind = selector->setting_kind();
    std::vector<Setting> grid = sweep_points > 0 ? sweep(kind, sweep_points) : paper_settings(kind);
    if (grid.empty()) grid = {{}};  // no setting is one result
    std::vector<std::string> labels;
    for (const Setting& setting : grid)
      labels.push_back(fmt::format("{}{}", setting.value, setting.percent ? "%" : ""));
    study.selectors.push_back(make_study_selector(text, std::move(selector), std::move(grid), std::move(labels)));
  }
  return study;
}

}  // namespace attest
