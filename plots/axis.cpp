// Computes axis ranges and tics.
#include "plots/axis.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <limits>
#include <set>

#include "plots/utf8.h"

namespace attest {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kMinShown = 1e-100, kMaxShown = 1e100;  ///< of positive numbers; others widen no axis
constexpr double kLinearMargin = 0.05, kLogMargin = 0.04;
constexpr std::size_t kMaxMeasuredTics = 6;  ///< of whole numbers, each value its own; of more, round ones
constexpr double kFloat32Deficit = 1e-7;     ///< float32 results do not tell smaller ones from 0

std::vector<std::string> columns_of(const Series& series, AxisOf which) {
  if (which == AxisOf::x && !series.x_low.empty()) return {series.x_low, series.x_high};
  if (which == AxisOf::x) return {series.x};
  if (which == AxisOf::colour)
    return series.mark == Mark::cells ? std::vector<std::string>{series.value} : std::vector<std::string>{};
  std::vector<std::string> columns = {series.y};
  for (const Band& band : series.bands) columns.insert(columns.end(), {band.low, band.high});
  return columns;
}

void for_each_shown(const Figure& figure, const Panel& panel, AxisOf which, const std::function<void(double)>& use) {
  for (const Series& series : panel.series)
    for (std::size_t row : drawn_rows(figure, series))
      for (const std::string& column : columns_of(series, which))
        use(shown_value(axis_of(panel, which), figure.data.numbers(column)[row]));
}

void widen(Range& range, double value, bool logarithmic) {
  if (!(std::abs(value) <= kMaxShown) || (logarithmic && value < kMinShown)) return;
  range.low = std::min(range.low, value);
  range.high = std::max(range.high, value);
}

/// gnuplot refuses an axis whose ends are equal in the digits of a script.
Range with_width(Range range, bool logarithmic) {
  const double size = std::max(std::abs(range.low), std::abs(range.high));
  if (range.high - range.low > 1e-4 * size) return range;
  if (logarithmic) return {range.low / 1.01, range.high * 1.01};
  const double margin = size < kMinShown ? 1 : size * 1e-3;
  return {range.low - margin, range.high + margin};
}

Range with_margin(Range range, bool logarithmic) {
  if (logarithmic) {
    const double decades = std::max(std::log10(range.high / range.low), 0.3);
    const double factor = std::pow(10, decades * kLogMargin);
    return {range.low / factor, range.high * factor};
  }
  double margin = (range.high - range.low) * kLinearMargin;
  if (margin == 0) margin = range.high == 0 ? 1 : std::abs(range.high) * kLinearMargin;
  return {range.low - margin, range.high + margin};
}

/// Removes the traces of binary fractions: 0.30000000000000004 becomes 0.3.
double rounded(double value) {
  return std::strtod(fmt::format("{:.10g}", value).c_str(), nullptr) + 0.0;  // + 0.0: no negative zero
}

/// "512", "4K", "1M".
std::string binary_text(double value) {
  constexpr double kKibi = 1024, kMebi = kKibi * kKibi;
  if (value >= kMebi && std::fmod(value, kMebi) == 0) return fmt::format("{:g}M", value / kMebi);
  if (value >= kKibi && std::fmod(value, kKibi) == 0) return fmt::format("{:g}K", value / kKibi);
  return fmt::format("{:g}", value);
}

/// A tic at the floor stands for what lies beyond it, too.
std::string label_of(const Axis& axis, double at) {
  const std::string number = axis.scale == Scale::deficit  ? fmt::format("{:.10g}", rounded(1 - at))
                             : axis.scale == Scale::binary ? binary_text(at)
                                                           : fmt::format("{:g}", at);
  if (at != axis.floor) return number;
  return (axis.scale == Scale::deficit ? "≥" : "≤") + number;
}

bool fits(const std::vector<Tic>& tics, const Axis& axis, Range range, const TicSpace& space) {
  auto place = [&](double at) {
    const double share = is_logarithmic(axis) ? std::log(at / range.low) / std::log(range.high / range.low)
                                              : (at - range.low) / (range.high - range.low);
    return share * space.length_in;
  };
  for (std::size_t i = 0; i + 1 < tics.size(); ++i) {
    const double width =
        space.character_in * 0.5 * static_cast<double>(label_characters(tics[i]) + label_characters(tics[i + 1]));
    const double needed = space.character_in > 0 ? width + space.character_in : space.line_in;
    if (std::abs(place(tics[i + 1].at) - place(tics[i].at)) < needed) return false;
  }
  return true;
}

std::vector<Tic> labelled(const Axis& axis, const std::vector<double>& values) {
  std::vector<Tic> tics;
  for (double at : values) tics.push_back({at, label_of(axis, at)});
  return tics;
}

/// Multiples of `step` within the range.
std::vector<double> multiples(Range range, double step) {
  std::vector<double> values;
  for (double i = std::ceil(range.low / step - 1e-9); i * step <= range.high + step * 1e-9; ++i)
    values.push_back(rounded(i * step));
  return values;
}

/// The densest round tics that fit, at most seven. `min_step`: 1 for whole numbers.
std::vector<Tic> linear_tics(const Axis& axis, Range range, const TicSpace& space, double min_step) {
  constexpr std::array kDigits = {1.0, 2.0, 5.0};
  constexpr std::size_t kMax = 7;
  const double span = range.high - range.low;
  std::vector<Tic> tics;
  if (!(span > 0) || !std::isfinite(span)) return tics;
  for (int decade = static_cast<int>(std::floor(std::log10(span))) - 2; decade < 300; ++decade)
    for (double digit : kDigits) {
      const double step = digit * std::pow(10, decade);
      if (step < min_step || span / step > 4 * kMax) continue;
      tics = labelled(axis, multiples(range, step));
      if (tics.size() <= kMax && fits(tics, axis, range, space)) return tics;
    }
  return tics;
}

/// The digits in every `every`-th decade. The decade of 1 is among these; with `from_end`, the lowest decade whose 1 is
/// in the range. The range may begin with a margin below that.
std::vector<double> digits_per_decade(Range range, const std::vector<int>& digits, int every, bool from_end) {
  std::vector<double> values;
  const double low = std::log10(range.low);
  const int first = static_cast<int>(std::floor(low + 1e-9));
  const int counted_from = from_end ? static_cast<int>(std::ceil(low - 1e-9)) : 0;
  for (int exponent = first; std::pow(10, exponent) <= range.high; ++exponent)
    for (int digit : digits)
      if (const double at = rounded(digit * std::pow(10, exponent));
          at >= range.low && at <= range.high && (exponent - counted_from) % every == 0)
        values.push_back(at);
  return values;
}

/// The densest of the usual digits that fit. Over a fraction of a decade, the values are evenly spaced.
std::vector<Tic> logarithmic_tics(const Axis& axis, Range range, const TicSpace& space) {
  if (!(range.low > 0) || !std::isfinite(range.high)) return {};
  constexpr std::size_t kMax = 8;
  static const std::vector<std::vector<int>> kPlain = {{1, 2, 3, 5, 7}, {1, 2, 5}, {1, 3}, {1}};
  static const std::vector<std::vector<int>> kNines = {{1, 2, 5}, {1}};  // 0.97 and 0.7 are no usual qualities
  auto usable = [&](const std::vector<Tic>& tics) { return tics.size() <= kMax && fits(tics, axis, range, space); };
  for (const std::vector<int>& digits : axis.scale == Scale::deficit ? kNines : kPlain) {
    const std::vector<Tic> tics = labelled(axis, digits_per_decade(range, digits, 1, false));
    if (tics.size() < 2) break;
    if (usable(tics)) return tics;
  }
  for (int every = 2; every < 40; ++every) {
    // The tic at the end of deficits says that what lies beyond it is drawn there.
    const std::vector<Tic> tics = labelled(axis, digits_per_decade(range, {1}, every, axis.scale == Scale::deficit));
    if (tics.size() < 2) break;
    if (usable(tics)) return tics;
  }
  return linear_tics(axis, range, space, 0);
}

/// Powers of two, as dense as fits; those between two neighbours are left out evenly.
std::vector<Tic> binary_tics(const Axis& axis, Range range, const TicSpace& space) {
  if (!(range.low > 0) || !std::isfinite(range.high)) return {};
  constexpr std::size_t kMax = 8;
  const auto first = static_cast<int>(std::ceil(std::log2(range.low)));
  for (int every = 1; every < 40; ++every) {
    std::vector<double> values;
    for (int exponent = first; std::exp2(exponent) <= range.high; exponent += every)
      values.push_back(std::exp2(exponent));
    if (values.size() < 2) break;
    std::vector<Tic> tics = labelled(axis, values);
    if (tics.size() <= kMax && fits(tics, axis, range, space)) return tics;
  }
  return linear_tics(axis, range, space, 0);
}

}  // namespace

bool is_logarithmic(const Axis& axis) { return axis.scale != Scale::linear; }

std::size_t label_characters(const Tic& tic) {
  const bool has_sign = tic.label.starts_with("≤") || tic.label.starts_with("≥");
  return characters(tic.label) + (has_sign ? 1 : 0);
}

const Axis& axis_of(const Panel& panel, AxisOf which) {
  if (which == AxisOf::colour) return panel.colour.value();
  return which == AxisOf::x ? panel.x : panel.y;
}

std::vector<std::size_t> drawn_rows(const Figure& figure, const Series& series) {
  const std::vector<std::string>& curves = figure.data.texts(kCurveColumn);
  const std::vector<double>& x = figure.data.numbers(series.x);
  const std::vector<double>& y = figure.data.numbers(series.y);
  std::vector<std::size_t> rows;
  bool of_curve = false;
  for (std::size_t row = 0; row < curves.size(); ++row) {
    // The rows of a curve are consecutive: its name is made fit once.
    if (row == 0 || curves[row] != curves[row - 1]) of_curve = CurveName(curves[row]) == series.curve;
    if (of_curve && std::isfinite(x[row]) && std::isfinite(y[row])) rows.push_back(row);
  }
  return rows;
}

double shown_value(const Axis& axis, double value) {
  return axis.scale == Scale::deficit ? 1 - value : value * axis.factor;
}

std::optional<double> axis_floor(const Figure& figure, const Panel& panel, AxisOf which) {
  const Axis& axis = axis_of(panel, which);
  if (!is_logarithmic(axis)) return std::nullopt;
  if (axis.floor || axis.scale != Scale::deficit) return axis.floor;
  double minimum = kInfinity;
  bool some_below = false;
  for_each_shown(figure, panel, which, [&](double deficit) {
    if (deficit < kFloat32Deficit) some_below = true;
    if (deficit >= kFloat32Deficit) minimum = std::min(minimum, deficit);
  });
  if (!some_below || !std::isfinite(minimum)) return kFloat32Deficit;
  const double decade = std::pow(10, std::floor(std::log10(minimum)));
  return rounded(std::max(kFloat32Deficit, minimum < 2 * decade ? decade / 10 : decade));
}

Range axis_range(const Figure& figure, const Panel& panel, AxisOf which) {
  const Axis& axis = axis_of(panel, which);
  const bool logarithmic = is_logarithmic(axis);
  const std::optional<double> floor = axis_floor(figure, panel, which);
  Range range{kInfinity, -kInfinity};
  const auto cover = [&](double value) { widen(range, floor && value < *floor ? *floor : value, logarithmic); };
  for_each_shown(figure, panel, which, cover);
  for (const ReferenceLine& line : panel.references)
    if (which != AxisOf::colour && line.vertical == (which == AxisOf::x)) cover(line.at);
  if (range.low > range.high) range = logarithmic ? Range{0.1, 1} : Range{0, 1};
  range.low = std::max(range.low, axis.low.value_or(range.low));
  range.high = std::min(range.high, axis.high.value_or(range.high));
  if (range.low > range.high) range.high = range.low;  // all data are outside the given bounds
  if (which == AxisOf::colour) {
    if (range.low == range.high) range = with_margin(range, logarithmic);
  } else if (panel.series.size() == 1 && panel.series.front().mark == Mark::cells) {
    const bool has_edges = which == AxisOf::x && !panel.series.front().x_low.empty();
    if (!has_edges) range = {range.low - 0.5, range.high + 0.5};
  } else {
    range =
        axis.whole_numbers && !logarithmic ? Range{range.low - 0.5, range.high + 0.5} : with_margin(range, logarithmic);
  }
  return with_width({axis.low.value_or(range.low), axis.high.value_or(range.high)}, logarithmic);
}

std::vector<Tic> axis_tics(const Figure& figure, const Panel& panel, AxisOf which, const TicSpace& space) {
  Axis axis = axis_of(panel, which);
  axis.floor = axis_floor(figure, panel, which);
  const Range range = axis_range(figure, panel, which);
  std::vector<Tic> tics;
  if (axis.scale == Scale::binary) {
    tics = binary_tics(axis, range, space);
  } else if (is_logarithmic(axis)) {
    tics = logarithmic_tics(axis, range, space);
  } else if (axis.whole_numbers) {
    std::set<double> measured;
    for_each_shown(figure, panel, which, [&](double value) {
      if (std::isfinite(value) && value == std::floor(value)) measured.insert(value);
    });
    const bool few = !measured.empty() && measured.size() <= kMaxMeasuredTics;
    if (few) tics = labelled(axis, {measured.begin(), measured.end()});
    if (!few || !fits(tics, axis, range, space)) tics = linear_tics(axis, range, space, 1);
  } else {
    tics = linear_tics(axis, range, space, 0);
  }
  return tics;
}

}  // namespace attest
