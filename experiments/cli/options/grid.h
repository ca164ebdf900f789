// Grids of settings as typed: "5,7", "1:12:0.5" (start:stop:step, both ends included), "1024,25%", "inf".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kernels/base/setting.h"
#include "kernels/selectors/selector.h"

namespace attest {

struct Grid {
  std::vector<Setting> settings;    ///< [S] in the order given
  std::vector<std::string> labels;  ///< [S] as typed; a range's points as their shortest decimals
};

/// Parses settings of `kind`; SettingKindInfo::valid describes the allowed values. Errors name the option --KIND.
/// Throws UsageError, also for a setting that is there twice, however it is spelt.
Grid parse_grid(SettingKind kind, std::string_view text);

/// The grid of a kind of setting for which the user gave none; one empty setting, labelled "", for SettingKind::none.
Grid default_grid(SettingKind kind);

/// The grid of a selector for which the user gave none. With a settings file it is 0 alone, which stands for the file
/// as it is.
Grid default_grid(const Selector& selector);

/// Parses a list of different finite numbers of at least 0, in the same grammar.
std::vector<double> parse_numbers(std::string_view text, std::string_view option);

}  // namespace attest
