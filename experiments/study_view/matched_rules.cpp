// Finds families of rules, aligns their cells and interpolates between settings.
#include "experiments/study_view/matched_rules.h"

#include <algorithm>
#include <cmath>

#include "experiments/study_view/selector_choice.h"

namespace attest {
namespace {

std::optional<std::size_t> rule_of(const PooledSelector& selector) {
  const std::string& name = selector.group.name;
  if (shifts_settings(selector.group)) return std::nullopt;
  if (!selector.is_oracle() && name != "ffd" && name != "imported") return std::nullopt;
  switch (selector.group.kind) {
    case SettingKind::budget:
      return 0;
    case SettingKind::p:
      return 1;
    case SettingKind::delta:
      return 2;
    default:
      return std::nullopt;
  }
}

std::string family_of(const PooledSelector& selector) { return selector.is_oracle() ? "oracle" : selector.group.name; }

/// Dense layers may differ: those of all three are left out. Without a settings_file its option says nothing, and rules
/// on budgets do not have it.
bool are_comparable(const PooledSelector& a, const PooledSelector& b) {
  return family_of(a) == family_of(b) && agree_but_in(a, b, {"rule", "dense_layers", "settings_file"});
}

std::vector<float> flat(const std::vector<SampleCells>& samples) {
  std::vector<float> values;
  for (const SampleCells& sample : samples) values.insert(values.end(), sample.values.begin(), sample.values.end());
  return values;
}

/// values[i] for every i with keep[i].
void choose(std::vector<float>& values, const std::vector<bool>& chosen) {
  std::size_t n = 0;
  for (std::size_t i = 0; i < values.size(); ++i)
    if (chosen[i]) values[n++] = values[i];
  values.resize(n);
}

}  // namespace

std::vector<RuleFamily> rule_families(const ModelStudy& study) {
  std::vector<RuleFamily> families;
  for (const PooledSelector& delta : study.selectors()) {
    if (rule_of(delta) != 2) continue;
    RuleFamily family{.name = family_of(delta), .rules = {nullptr, nullptr, &delta}};
    for (const PooledSelector& other : study.selectors())
      if (const auto rule = rule_of(other); rule && !family.rules[*rule] && are_comparable(other, delta))
        family.rules[*rule] = &other;
    if (std::ranges::count(family.rules, nullptr) == 0) families.push_back(std::move(family));
  }
  std::ranges::stable_partition(families, [](const RuleFamily& f) { return f.name == "oracle"; });
  return families;
}

std::optional<RuleCells> rule_cells(const ModelStudy& study, const RuleFamily& family, const std::set<int>& except) {
  RuleCells result;
  const std::vector<SampleCells> entropy = study.score_cells(*family.rules[0], "entropy", except);
  result.entropy = flat(entropy);
  std::vector<bool> defined(result.entropy.size());
  for (std::size_t i = 0; i < defined.size(); ++i) defined[i] = !std::isnan(result.entropy[i]);
  for (std::size_t r = 0; r < family.rules.size(); ++r) {
    const PooledSelector& rule = *family.rules[r];
    const auto keep = study.cells(rule, "keep_ratio", except), recall = study.cells(rule, "recall", except);
    for (std::size_t s = 0; s < keep.size(); ++s) {
      if (!std::ranges::equal(keep[s], entropy, same_cells) || !std::ranges::equal(recall[s], entropy, same_cells))
        continue;
      RuleCells::Setting setting{
          .label = rule.group.setting_labels[s], .keep = flat(keep[s]), .recall = flat(recall[s])};
      if (rule.group.kind == SettingKind::delta) setting.delta = rule.group.grid[s].value;
      for (std::size_t i = 0; i < defined.size(); ++i)
        if (std::isnan(setting.keep[i]) || std::isnan(setting.recall[i])) defined[i] = false;
      result.rules[r].push_back(std::move(setting));
    }
    if (result.rules[r].empty()) return std::nullopt;
  }
  choose(result.entropy, defined);
  if (result.entropy.empty()) return std::nullopt;
  for (std::vector<RuleCells::Setting>& settings : result.rules) {
    for (RuleCells::Setting& setting : settings) {
      choose(setting.keep, defined);
      choose(setting.recall, defined);
      double sum = 0;
      for (const float keep : setting.keep) sum += static_cast<double>(keep);
      setting.mean_keep = sum / static_cast<double>(setting.keep.size());
    }
    std::ranges::stable_sort(settings, {}, &RuleCells::Setting::mean_keep);
  }
  return result;
}

std::optional<MatchedRule> matched(const std::vector<RuleCells::Setting>& settings, double mean_keep) {
  const auto above = std::ranges::lower_bound(settings, mean_keep, {}, &RuleCells::Setting::mean_keep);
  if (above == settings.end()) return std::nullopt;
  const auto below = above->mean_keep == mean_keep ? above
                     : above == settings.begin()   ? settings.end()
                                                   : std::prev(above);
  if (below == settings.end()) return std::nullopt;
  MatchedRule rule{.low = below->label, .high = above->label, .weight = 0, .keep = {}, .recall = {}};
  if (below != above) rule.weight = (mean_keep - below->mean_keep) / (above->mean_keep - below->mean_keep);
  const auto between = [&](float a, float b) {
    return static_cast<double>(a) + rule.weight * (static_cast<double>(b) - static_cast<double>(a));
  };
  for (std::size_t i = 0; i < below->keep.size(); ++i) {
    rule.keep.push_back(between(below->keep[i], above->keep[i]));
    rule.recall.push_back(between(below->recall[i], above->recall[i]));
  }
  return rule;
}

}  // namespace attest
