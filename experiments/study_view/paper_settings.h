// The settings at which the methods' papers use them, and what of a grid they are.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/study/study.h"

namespace attest {

/// FFD, in nats; results are mostly shown at the first.
inline constexpr std::array kPaperDeltas = {5.0, 7.0};
/// FFD's comparison with skip_softmax.
inline constexpr double kPaperFactor = 1000;

/// Delta 5 and 7 (FFD); budget 1024 and 50 % (Quest, and FFD's comparison with it); p 0.85 (Twilight); and
/// kPaperFactor. None for SettingKind::none.
std::vector<Setting> paper_settings(SettingKind kind);

/// Whether the setting is one of them. Those of a settings_file, which has others for each KV head, are not.
bool is_paper_setting(const StudySelector& group, std::size_t setting);

/// The indices of the papers' settings in the grid; every index if it has none of them.
std::vector<std::size_t> shown_settings(const StudySelector& group);

/// Ends a caption that speaks of the papers' settings: of which selectors the grid has none of them. `instead`: what is
/// shown of those, "all settings are shown". Empty if each has one, or no settings.
std::string without_paper_settings(const std::vector<const StudySelector*>& groups, std::string_view instead);

}  // namespace attest
