// Settings of a selector: what a sweep varies.
#pragma once

#include <cmath>
#include <cstdint>
#include <string_view>

namespace attest {

/// What a selector's rule is set by. `none`: there is one result.
enum class SettingKind : std::uint8_t { none, delta, budget, p };

constexpr std::string_view name_of(SettingKind kind) {
  switch (kind) {
    case SettingKind::delta:
      return "delta";
    case SettingKind::budget:
      return "budget";
    case SettingKind::p:
      return "p";
    case SettingKind::none:
      break;
  }
  return "none";
}

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
