// Compares the typed grids and the selectors of a study.
#include "experiments/cli/study_notices.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "kernels/selectors/registry.h"

namespace attest {
namespace {

/// Names of the registered selectors that take settings of `kind`, with default options.
std::vector<std::string> selectors_with(SettingKind kind) {
  std::vector<std::string> names;
  for (const SelectorInfo* info : all_selectors()) {
    const std::string name(info->name);
    if (make_selector({name, name, {}})->setting_kind() == kind) names.push_back(name);
  }
  return names;
}

}  // namespace

std::vector<std::string> study_notices(const Study& study, const std::map<SettingKind, std::string>& grids) {
  std::vector<std::string> notices;
  for (const auto& [kind, text] : grids) {
    const bool used = std::ranges::count(study.selectors, kind, &StudySelector::kind) > 0;
    if (!text.empty() && !used)
      notices.push_back(fmt::format("--{} {} is not used: no selector of this study takes it, as {} would",
                                    name_of(kind), text, fmt::join(selectors_with(kind), ", ")));
  }
  for (auto one = study.selectors.begin(); one != study.selectors.end(); ++one)
    for (auto other = study.selectors.begin(); other != one; ++other)
      if (one->name == other->name && one->options_json == other->options_json)
        notices.push_back(fmt::format("'{}' and '{}' are the same selector, '{}' with the same options", other->label,
                                      one->label, one->name));
  return notices;
}

}  // namespace attest
