// Chooses selectors and settings by their options.
#include "experiments/study_view/selector_choice.h"

#include <fmt/core.h>

#include <algorithm>
#include <numbers>

#include "experiments/study_view/paper_settings.h"

namespace attest {

std::optional<std::size_t> index_of(const StudySelector& group, double value) {
  if (shifts_settings(group)) return std::nullopt;
  const auto found = std::ranges::find_if(group.grid, [&](const Setting& s) { return !s.percent && s.value == value; });
  if (found == group.grid.end()) return std::nullopt;
  return static_cast<std::size_t>(found - group.grid.begin());
}

bool agree_but_in(const PooledSelector& a, const PooledSelector& b, std::initializer_list<const char*> names) {
  auto first = a.options(), second = b.options();
  for (const char* name : names) {
    first.erase(name);
    second.erase(name);
  }
  return first == second;
}

bool differ_at_most_in(const PooledSelector& a, const PooledSelector& b, std::initializer_list<const char*> names) {
  return a.group.name == b.group.name && a.group.kind == b.group.kind && agree_but_in(a, b, names);
}

const PooledSelector* first_selector(const ModelStudy& study, std::string_view name, const SelectorCondition& accept) {
  for (const PooledSelector& selector : study.selectors())
    if (selector.group.name == name && !shifts_settings(selector.group) && (!accept || accept(selector)))
      return &selector;
  return nullptr;
}

std::vector<const PooledSelector*> top_delta_ffds(const ModelStudy& study) {
  std::vector<const PooledSelector*> found;
  for (const PooledSelector& selector : study.selectors())
    if (selector.group.name == "ffd" && selector.group.kind == SettingKind::delta && !shifts_settings(selector.group))
      found.push_back(&selector);
  return found;
}

const PooledSelector* first_top_delta_ffd(const ModelStudy& study, const SelectorCondition& accept) {
  return first_selector(study, "ffd", [&](const PooledSelector& selector) {
    return selector.group.kind == SettingKind::delta && accept(selector);
  });
}

bool has_global_pseudo_max(const PooledSelector& ffd) { return ffd.option("pseudo_max").starts_with("global"); }

std::vector<const PooledSelector*> gqa_policies(const ModelStudy& study, const SelectorCondition& accept) {
  std::vector<const PooledSelector*> chosen;
  for (const PooledSelector* selector : top_delta_ffds(study)) {
    if (!accept(*selector)) continue;
    if (chosen.empty() || (chosen.size() == 1 && differ_at_most_in(*selector, *chosen[0], {"gqa"}) &&
                           selector->option("gqa") != chosen[0]->option("gqa")))
      chosen.push_back(selector);
  }
  return chosen;
}

std::string left_out_for_settings_file(const ModelStudy& study) {
  std::string labels;
  for (const PooledSelector& selector : study.selectors())
    if (shifts_settings(selector.group))
      labels += fmt::format("{}'{}'", labels.empty() ? "" : ", ", selector.group.label);
  return labels.empty() ? labels
                        : fmt::format("; not of {}: a settings_file gives KV heads deltas of their own", labels);
}

std::optional<double> nats_per_delta(const PooledSelector& ffd) {
  const std::string unit = ffd.option("delta_unit");
  if (unit == "unscaled") return std::nullopt;
  return unit == "log2" ? std::numbers::ln2 : 1;
}

std::size_t shown_delta(const StudySelector& group) {
  for (const double papers : kPaperDeltas)
    if (const std::optional<std::size_t> index = index_of(group, papers)) return *index;
  return group.grid.size() / 2;
}

std::vector<std::string> labels_of(const ModelStudy& study) {
  std::vector<std::string> labels;
  for (const PooledSelector& selector : study.selectors()) labels.push_back(selector.group.label);
  return labels;
}

}  // namespace attest
