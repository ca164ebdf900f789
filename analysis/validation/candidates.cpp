// Finds labels with settings in results files.
#include "analysis/validation/candidates.h"

#include <fmt/core.h>

#include <algorithm>

#include "analysis/study/selector_options.h"
#include "analysis/study/typed_setting.h"
#include "dumps/base/error.h"
#include "dumps/base/join.h"
#include "dumps/base/printable.h"

namespace attest {

std::optional<LabelledSetting> find_labelled(const ResultsFile& file, const std::string& typed) {
  if (const auto whole = file.find_selector(typed)) return LabelledSetting{*whole};
  const std::size_t at = typed.rfind('@');
  if (at == std::string::npos) return std::nullopt;
  const auto selector = file.find_selector(typed.substr(0, at));
  if (!selector) return std::nullopt;
  const StudySelector& of = file.study().selectors[*selector];
  for (std::size_t s = 0; s < of.grid.size(); ++s)
    if (of.kind != SettingKind::none && is_setting(of, s, typed.substr(at + 1))) return LabelledSetting{*selector, s};
  return std::nullopt;
}

std::string unknown_setting(const ResultsFile& file, const std::string& typed) {
  const std::size_t at = typed.rfind('@');
  const auto selector = at == std::string::npos ? std::nullopt : file.find_selector(typed.substr(0, at));
  if (!selector || find_labelled(file, typed)) return {};
  const StudySelector& of = file.study().selectors[*selector];
  const std::string settings = of.kind == SettingKind::none
                                   ? "no settings"
                                   : fmt::format("the settings {}", excerpt(join(of.setting_labels, ", ")));
  return fmt::format("'{}' of {} has {}, found '{}'", excerpt(of.label), file.path(), settings,
                     excerpt(typed.substr(at + 1)));
}

std::vector<Candidate> find_candidates(const ResultsFile& file, std::span<const std::string> texts) {
  std::vector<Candidate> candidates;
  std::vector<LabelledSetting> taken;
  for (const std::string& text : texts) {
    std::optional<LabelledSetting> found = find_labelled(file, text);
    if (!found) {
      if (const std::string unknown = unknown_setting(file, text); !unknown.empty())
        throw UsageError(fmt::format("--candidates: {}", unknown));
      std::vector<std::string> labels;
      for (const StudySelector& selector : file.study().selectors) labels.push_back(selector.label);
      throw UsageError(
          printable(fmt::format("--candidates: {} has no '{}', expected a label, or LABEL@SETTING; it has {}",
                                file.path(), text, join(labels, ", "))));
    }
    const StudySelector& selector = file.study().selectors[found->selector];
    if (!found->setting && selector.grid.size() > 1)
      throw UsageError(printable(fmt::format(
          "--candidates: '{}' of {} has the settings {}, expected one of them: {}@{}", selector.label, file.path(),
          join(selector.setting_labels, ", "), selector.label, selector.setting_labels.front())));
    if (!found->setting) found->setting = 0;
    if (const auto same = std::ranges::find(taken, *found); same != taken.end())
      throw UsageError(printable(fmt::format("--candidates: '{}' and '{}' are the same",
                                             candidates[static_cast<std::size_t>(same - taken.begin())].text, text)));
    taken.push_back(*found);
    candidates.push_back({text, selector, *found->setting});
  }
  return candidates;
}

std::vector<LabelledSetting> columns_of(const ResultsFile& file, std::span<const Candidate> candidates) {
  std::vector<LabelledSetting> columns;
  for (const Candidate& candidate : candidates) {
    const StudySelector& wanted = candidate.selector;
    const std::optional<std::size_t> at = file.find_selector(wanted.label);
    if (!at)
      throw UsageError(fmt::format("--candidates: {} has no selector '{}': give results of one study", file.path(),
                                   printable(wanted.label)));
    const StudySelector& own = file.study().selectors[*at];
    const auto setting = std::ranges::find(own.grid, wanted.grid[candidate.setting]);
    if (own.name != wanted.name || !same_options(own.name, own.options_json, wanted.options_json) ||
        own.kind != wanted.kind || setting == own.grid.end())
      throw UsageError(printable(
          fmt::format("--candidates: '{}' is of different studies: {} has {} with the options {} and the settings {}",
                      candidate.text, file.path(), own.name, own.options_json, join(own.setting_labels, ","))));
    columns.push_back({*at, static_cast<std::size_t>(setting - own.grid.begin())});
  }
  return columns;
}

StudySelector selector_of(std::span<const Candidate> candidates) {
  StudySelector all{.label = {}, .name = {}, .options_json = "{}", .grid = {}, .setting_labels = {}};
  for (const Candidate& candidate : candidates) {
    all.label += (all.label.empty() ? "" : ", ") + candidate.text;
    all.grid.push_back({.value = static_cast<double>(all.grid.size() + 1)});
    all.setting_labels.push_back(candidate.text);
  }
  return all;
}

}  // namespace attest
