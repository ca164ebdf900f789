// Parses grids of settings and expands their ranges.
#include "experiments/cli/options/grid.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "dumps/base/error.h"
#include "dumps/base/text_parts.h"
#include "experiments/cli/options/refuse_twice.h"
#include "kernels/base/not_defined.h"
#include "kernels/selectors/options.h"

namespace attest {
namespace {

constexpr int kMaxDecimals = 15;
constexpr int kLargestExponent = 1000;  // beyond what a double has
constexpr double kWhole = 0x1p53;       // doubles from here on have no decimals

/// A finite number, and how many digits follow its point when it is written without an exponent.
struct Decimal {
  double value = 0;
  int digits = 0;
};

bool parse_decimal(std::string_view text, Decimal& out) {
  out.value = parse_number<double>(text).value_or(kNaN);
  if (!std::isfinite(out.value)) return false;
  const std::size_t e = std::min(text.find_first_of("eE"), text.size());
  const std::size_t point = text.substr(0, e).find('.');
  const int typed = point == std::string_view::npos ? 0 : static_cast<int>(e - point - 1);
  int exponent = 0;
  if (e < text.size()) {
    std::string_view power = text.substr(e + 1);
    if (power.starts_with('+')) power.remove_prefix(1);
    const std::optional<int> number = take_number<int>(power);
    if (!number) return false;
    exponent = *number;
  }
  out.digits = std::max(typed - std::clamp(exponent, -kLargestExponent, kLargestExponent), 0);
  return true;
}

class GridParser {
 public:
  GridParser(std::string_view option, std::string_view expected) : option_(option), expected_(expected) {}

  [[noreturn]] void reject(std::string_view part) const {
    throw UsageError(fmt::format("{}: '{}' is not {}", option_, part, expected_));
  }

  /// The elements of the list with ranges expanded.
  std::vector<std::string> elements(std::string_view text) const {
    std::vector<std::string> all;
    for (const std::string_view part : trimmed_items(text)) {
      if (part.find(':') == std::string_view::npos)
        all.emplace_back(part);
      else
        expand(part, all);
      if (all.size() > std::size_t{kMaxSettings})
        throw UsageError(fmt::format("{}: more than {} settings", option_, kMaxSettings));
    }
    return all;
  }

 private:
  /// Points are computed as start + i * step and then rounded to the number of decimals that was typed, so that
  /// 0.1:0.5:0.1 has 0.3 and not 0.30000000000000004.
  void expand(std::string_view range, std::vector<std::string>& all) const {
    std::vector<std::string_view> parts = trimmed_items(range, ':');
    const bool percent = std::all_of(parts.begin(), parts.end(), [](std::string_view p) { return p.ends_with('%'); });
    if (percent)
      for (std::string_view& part : parts) part.remove_suffix(1);
    Decimal start, stop, step;
    if (parts.size() != 3 || !parse_decimal(parts[0], start) || !parse_decimal(parts[1], stop) ||
        !parse_decimal(parts[2], step))
      throw UsageError(fmt::format("{}: '{}' is not a range start:stop:step of finite numbers", option_, range));
    if (std::max(start.digits, step.digits) > kMaxDecimals)
      throw UsageError(fmt::format("{}: '{}' has {} decimals, expected at most {}", option_, range,
                                   std::max(start.digits, step.digits), kMaxDecimals));
    if (!(step.value > 0) || stop.value < start.value)
      throw UsageError(fmt::format(
          "{}: the range '{}' is empty: expected a step above 0 and a stop not below the start", option_, range));
    const double points = std::floor((stop.value - start.value) / step.value + 1e-9) + 1;
    if (points > kMaxSettings)
      throw UsageError(
          fmt::format("{}: '{}' has {:.15g} settings, expected at most {}", option_, range, points, kMaxSettings));
    const double unit = std::pow(10.0, std::max(start.digits, step.digits));
    for (int i = 0; i < static_cast<int>(points); ++i) {
      double value = start.value + i * step.value;
      if (std::abs(value) * unit < kWhole) value = std::round(value * unit) / unit;
      all.push_back(fmt::format("{}{}", value, percent ? "%" : ""));
    }
  }

  std::string option_, expected_;
};

bool parse_setting(SettingKind kind, std::string_view text, Setting& out) {
  if (kind == SettingKind::budget) return parse_budget(text, out);
  out.value = parse_number<double>(text).value_or(kNaN);
  return !std::isnan(out.value) && is_valid(kind, out);
}

}  // namespace

Grid parse_grid(SettingKind kind, std::string_view text) {
  const SettingKindInfo& info = info_of(kind);
  const GridParser parser(fmt::format("--{}", info.name), info.valid);
  Grid grid;
  for (std::string& element : parser.elements(text)) {
    Setting setting;
    if (!parse_setting(kind, element, setting)) parser.reject(element);
    grid.settings.push_back(setting);
    grid.labels.push_back(std::move(element));
  }
  refuse_twice(fmt::format("--{}", info.name), grid.settings, grid.labels);
  return grid;
}

Grid default_grid(SettingKind kind) {
  if (kind == SettingKind::none) return {{Setting{}}, {""}};
  return parse_grid(kind, info_of(kind).default_grid);
}

Grid default_grid(const Selector& selector) {
  return selector.settings_file() != nullptr ? Grid{{Setting{}}, {"0"}} : default_grid(selector.setting_kind());
}

std::vector<double> parse_numbers(std::string_view text, std::string_view option) {
  const GridParser parser(option, "a finite number of at least 0");
  std::vector<double> numbers;
  const std::vector<std::string> elements = parser.elements(text);
  for (const std::string& element : elements) {
    const double value = parse_number<double>(element).value_or(kNaN);
    if (!(value >= 0) || std::isinf(value)) parser.reject(element);
    numbers.push_back(value);
  }
  refuse_twice(option, numbers, elements);
  return numbers;
}

}  // namespace attest
