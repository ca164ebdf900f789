// Settings of a selector: the parameter that a sweep varies.
#pragma once

#include <cmath>
#include <cstdint>
#include <string_view>

namespace attest {

/// The parameter of a selector's rule. `none`: the rule has no parameter and gives one result.
enum class SettingKind : std::uint8_t { none, delta, budget, p, factor };

/// User-visible texts of a kind. The command line has one option --NAME for each kind except `none`.
struct SettingKindInfo {
  SettingKind kind;
  std::string_view name;
  std::string_view valid;         ///< the valid settings, for error messages
  std::string_view default_grid;  ///< in command-line syntax
};

inline constexpr SettingKindInfo kSettingKinds[] = {
    {SettingKind::none, "none", "nothing", ""},
    {SettingKind::delta, "delta", "a delta: a number of at least 0, or inf", "1:12:0.5"},
    {SettingKind::budget, "budget",
     "a budget: a whole number of tokens above 0, or a percentage above 0 and at most 100",
     "1024,1.5625%,3.125%,6.25%,12.5%,25%,50%,100%"},
    {SettingKind::p, "p", "a p: a number above 0 and at most 1", "0.5,0.7,0.8,0.85,0.9,0.95,0.99,0.999"},
    {SettingKind::factor, "factor", "a factor: a finite number above 0", "1,3,10,30,100,300,1000,3000,10000"},
};

constexpr const SettingKindInfo& info_of(SettingKind kind) { return kSettingKinds[static_cast<std::size_t>(kind)]; }
constexpr std::string_view name_of(SettingKind kind) { return info_of(kind).name; }

/// No grid has more settings: a GPU counts those of a row in the shared memory of one thread block.
inline constexpr int kMaxSettings = 1000;

/// One point of a grid. A budget is in tokens, or in per cent of the visible keys; a delta may be infinite.
struct Setting {
  double value = 0;
  bool percent = false;

  /// The value for a query that sees `visible` keys. A percentage becomes floor(value * visible / 100 + 1e-9) tokens;
  /// the 1e-9 absorbs the rounding error of decimal fractions.
  double resolve(std::int64_t visible) const {
    return percent ? std::floor(value * static_cast<double>(visible) / 100 + 1e-9) : value;
  }
  bool operator==(const Setting&) const = default;
};

/// Whether a setting is one of SettingKindInfo::valid.
inline bool is_valid(SettingKind kind, const Setting& setting) {
  const double value = setting.value;
  if (kind != SettingKind::budget && setting.percent) return false;
  switch (kind) {
    case SettingKind::delta:
      return value >= 0;
    case SettingKind::budget:
      return setting.percent ? value > 0 && value <= 100 : value >= 1 && value == std::floor(value) && value <= 1e15;
    case SettingKind::p:
      return value > 0 && value <= 1;
    case SettingKind::factor:
      return value > 0 && !std::isinf(value);
    case SettingKind::none:
      break;
  }
  return false;
}

/// A sum reaches a share p if it is at least p - kShareTolerance. The tolerance keeps rounding from deciding when
/// weights are equal.
inline constexpr double kShareTolerance = 1e-6;

}  // namespace attest
