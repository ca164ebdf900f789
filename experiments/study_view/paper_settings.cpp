// Finds the papers' settings in grids.
#include "experiments/study_view/paper_settings.h"

#include <fmt/core.h>

#include <algorithm>

#include "dumps/base/join.h"
#include "experiments/study_view/words.h"

namespace attest {

std::vector<Setting> paper_settings(SettingKind kind) {
  switch (kind) {
    case SettingKind::delta:
      return {{kPaperDeltas[0]}, {kPaperDeltas[1]}};
    case SettingKind::budget:
      return {{1024}, {50, true}};
    case SettingKind::p:
      return {{0.85}};
    case SettingKind::factor:
      return {{kPaperFactor}};
    case SettingKind::none:
      break;
  }
  return {};
}

bool is_paper_setting(const StudySelector& group, std::size_t setting) {
  return !shifts_settings(group) && std::ranges::count(paper_settings(group.kind), group.grid[setting]) > 0;
}

std::vector<std::size_t> shown_settings(const StudySelector& group) {
  std::vector<std::size_t> chosen, all;
  for (std::size_t s = 0; s < group.grid.size(); ++s) {
    all.push_back(s);
    if (is_paper_setting(group, s)) chosen.push_back(s);
  }
  return chosen.empty() ? all : chosen;
}

std::string without_paper_settings(const std::vector<const StudySelector*>& groups, std::string_view instead) {
  std::vector<std::string> without;
  for (const StudySelector* group : groups)
    if (group->kind != SettingKind::none && !is_paper_setting(*group, shown_settings(*group).front()))
      if (std::string name = display_name(group->label); std::ranges::count(without, name) == 0)
        without.push_back(std::move(name));
  if (without.empty()) return {};
  return fmt::format(" The grid{} of {} ha{} none of the papers' settings: {}.", without.size() == 1 ? "" : "s",
                     join(without, ", "), without.size() == 1 ? "s" : "ve", instead);
}

}  // namespace attest
