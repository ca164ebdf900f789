// Settings of a selector: what a sweep varies.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string_view>

namespace attest {

/// What a selector's rule is set by. `none`: there is one result.
enum class SettingKind : std::uint8_t { none, delta, budget, p, factor };

/// A kind as users see it. The command line has one option --NAME for each kind but `none`.
struct SettingKindInfo {
  SettingKind kind;
  std::string_view name;
  std::string_view valid;         ///< what a setting of this kind may be, for errors
  std::string_view default_grid;  ///< as it would be typed
};

inline constexpr SettingKindInfo kSettingKinds[] = {
    {SettingKind::none, "none", "nothing", ""},
    {SettingKind::delta, "delta", "a delta: a number of at least 0, or inf", "1:12:0.5"},
    {SettingKind::budget, "budget", "a budget: a whole number of tokens above 0, or a per cent above 0 and at most 100",
     "1024,1.5625%,3.125%,6.25%,12.5%,25%,50%,100%"},
    {SettingKind::p, "p", "a p: a number above 0 and at most 1", "0.5,0.7,0.8,0.85,0.9,0.95,0.99,0.999"},
    {SettingKind::factor, "factor", "a factor: a finite number above 0", "1,3,10,30,100,300,1000,3000,10000"},
};

constexpr const SettingKindInfo& info_of(SettingKind kind) { return kSettingKinds[static_cast<std::size_t>(kind)]; }
constexpr std::string_view name_of(SettingKind kind) { return info_of(kind).name; }

/// One point of a grid. A budget is in tokens, or in per cent of the visible keys; a delta may be infinite.
struct Setting {
  double value = 0;
  bool percent = false;

  /// The value for a query that sees `visible` keys: a percentage becomes floor(value * visible / 100 + 1e-9) tokens,
  /// so that decimal fractions mean what they say.
  double resolve(std::int64_t visible) const {
    return percent ? std::floor(value * static_cast<double>(visible) / 100 + 1e-9) : value;
  }
  bool operator==(const Setting&) const = default;
};

/// A share p is reached by a sum that is at least p less this, so that equal weights do not hang on rounding.
inline constexpr double kShareTolerance = 1e-6;

}  // namespace attest
