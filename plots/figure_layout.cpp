// Computes margins, axis ranges, tics and the size of the legend.
#include "plots/figure_layout.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

namespace attest {
namespace {

// Inches, for text of kFontSizePt.
constexpr double kTitleHeight = 0.16;
constexpr double kXLabels = 0.33;  // tic labels and axis label
constexpr double kYLabels = 0.47;
constexpr double kGap = 0.09;
constexpr double kYLabelHalf = 0.065;  // half the height of the rotated axis label
constexpr double kLegendRow = 0.108;
constexpr double kNoteHeight = 0.15;
constexpr double kCharacterWidth = 0.0585;
constexpr double kLegendSample = 0.36;  // sample line and spaces before a title

constexpr double kLinearMargin = 0.05, kLogMargin = 0.04;

/// Characters of UTF-8, counted by their first bytes.
std::size_t characters(const std::string& text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

/// A title that is longer than a line of the legend is cut and gets an ellipsis.
std::string fitted(const std::string& title) {
  constexpr auto kMost = static_cast<std::size_t>((kFigureWidthIn - kLegendSample) / kCharacterWidth);
  if (characters(title) <= kMost) return title;
  std::string text;
  std::size_t count = 0;
  for (char c : title) {
    if ((c & 0xC0) != 0x80 && ++count == kMost) break;
    text += c;
  }
  return text + "\u2026";
}

void widen(Range& range, double value, bool logarithmic) {
  if (!std::isfinite(value) || (logarithmic && value <= 0)) return;
  range.low = std::min(range.low, value);
  range.high = std::max(range.high, value);
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

/// One tic per decade over many decades, several over few.
std::vector<double> logarithmic_tics(Range range) {
  if (!(range.low > 0) || !std::isfinite(range.high)) return {};  // a bound that was given
  const double ratio = range.high / range.low;
  const std::vector<int> digits = ratio > 1e3  ? std::vector<int>{1}
                                  : ratio > 10 ? std::vector<int>{1, 2, 5}
                                               : std::vector<int>{1, 2, 3, 5, 7};
  std::vector<double> tics;
  for (int exponent = static_cast<int>(std::floor(std::log10(range.low))); std::pow(10, exponent) <= range.high;
       ++exponent)
    for (int digit : digits)
      if (const double at = digit * std::pow(10, exponent); at >= range.low && at <= range.high) tics.push_back(at);
  return tics;
}

constexpr std::size_t kMostWholeTics = 6;

std::vector<double> whole_number_tics(Range range) {
  auto multiples = [&](int step) {
    std::vector<double> tics;
    for (double at = std::ceil(range.low / step) * step; at <= range.high; at += step) tics.push_back(at);
    return tics;
  };
  for (int decade = 1;; decade *= 10)
    for (int digit : {1, 2, 4, 5, 8})
      if ((range.high - range.low) / (digit * decade) <= kMostWholeTics) return multiples(digit * decade);
}

int rows_of_panels(const Figure& figure) {
  return (static_cast<int>(figure.panels.size()) + figure.columns - 1) / figure.columns;
}

void add_legend(const Figure& figure, FigureLayout& layout) {
  std::size_t longest = characters(figure.ring_title);
  for (const Panel& panel : figure.panels) {
    for (const Series& series : panel.series) {
      const std::vector<std::size_t> rows = drawn_rows(figure, series);
      if (rows.empty()) continue;
      if (!series.ring.empty() && !figure.ring_title.empty()) {
        const std::vector<double>& rings = figure.data.numbers(series.ring);
        layout.has_rings |= std::ranges::any_of(rows, [&](std::size_t row) { return rings[row] == 1; });
      }
      const std::string title = fitted(series.title);
      const bool known = std::ranges::any_of(layout.legend, [&](const LegendEntry& e) { return e.title == title; });
      if (title.empty() || known) continue;
      layout.legend.push_back({title, series.style});
      longest = std::max(longest, characters(title));
    }
  }
  const auto entries = static_cast<int>(layout.legend.size()) + (layout.has_rings ? 1 : 0);
  const double entry_width = kLegendSample + kCharacterWidth * static_cast<double>(longest);
  const int columns = std::clamp(static_cast<int>(kFigureWidthIn / entry_width), 1, std::max(entries, 1));
  layout.legend_rows = (entries + columns - 1) / columns;
}

}  // namespace

std::vector<std::size_t> drawn_rows(const Figure& figure, const Series& series) {
  const std::vector<std::string>& curves = figure.data.texts(kCurveColumn);
  const std::vector<double>& x = figure.data.numbers(series.x);
  const std::vector<double>& y = figure.data.numbers(series.y);
  std::vector<std::size_t> rows;
  for (std::size_t row = 0; row < curves.size(); ++row)
    if (curves[row] == series.curve && std::isfinite(x[row]) && std::isfinite(y[row])) rows.push_back(row);
  return rows;
}

Range axis_range(const Figure& figure, const Panel& panel, bool vertical) {
  const Axis& axis = vertical ? panel.y : panel.x;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Range range{kInfinity, -kInfinity};
  for (const Series& series : panel.series) {
    std::vector<std::string> columns = {vertical ? series.y : series.x};
    if (vertical)
      for (const Band& band : series.bands) columns.insert(columns.end(), {band.low, band.high});
    for (std::size_t row : drawn_rows(figure, series))
      for (const std::string& column : columns)
        widen(range, figure.data.numbers(column)[row] * axis.factor, axis.logarithmic);
  }
  if (vertical)
    for (const ReferenceLine& line : panel.references) widen(range, line.y, axis.logarithmic);
  if (range.low > range.high) range = axis.logarithmic ? Range{0.1, 1} : Range{0, 1};
  range.low = std::max(range.low, axis.low.value_or(range.low));
  range.high = std::min(range.high, axis.high.value_or(range.high));
  if (range.low > range.high) range.high = range.low;  // all data are outside the given bounds
  range = axis.whole_numbers ? Range{range.low - 0.5, range.high + 0.5} : with_margin(range, axis.logarithmic);
  return {axis.low.value_or(range.low), axis.high.value_or(range.high)};
}

std::optional<std::vector<double>> tic_values(const Figure& figure, const Panel& panel, bool vertical) {
  const Axis& axis = vertical ? panel.y : panel.x;
  const Range range = axis_range(figure, panel, vertical);
  if (axis.logarithmic) return logarithmic_tics(range);
  if (!axis.whole_numbers) return std::nullopt;

  std::set<double> measured;
  for (const Series& series : panel.series)
    for (std::size_t row : drawn_rows(figure, series))
      measured.insert(figure.data.numbers(vertical ? series.y : series.x)[row] * axis.factor);
  if (measured.size() <= kMostWholeTics) return std::vector<double>(measured.begin(), measured.end());
  return whole_number_tics(range);
}

double FigureLayout::y_label_x(const Place& place) const { return place.left - (kYLabels - kYLabelHalf) / width_in; }

FigureLayout layout_of(const Figure& figure) {
  FigureLayout layout;
  add_legend(figure, layout);

  const int columns = figure.columns, rows = rows_of_panels(figure);
  auto panel_at = [&](int row, int column) -> const Panel* {
    const auto index = static_cast<std::size_t>(row * columns + column);
    return index < figure.panels.size() ? &figure.panels[index] : nullptr;
  };
  std::vector<double> left(columns, kGap), below(rows, kGap);
  for (int row = 0; row < rows; ++row)
    for (int column = 0; column < columns; ++column)
      if (const Panel* panel = panel_at(row, column)) {
        if (panel->show_y) left[column] = kYLabels;
        if (panel->show_x) below[row] = kXLabels;
      }

  const double legend_height = layout.legend_rows * kLegendRow + kGap / 2;
  const double note_height = figure.note.empty() ? 0 : kNoteHeight;
  double total_left = 0, total_below = 0;
  for (double margin : left) total_left += margin;
  for (double margin : below) total_below += margin;
  layout.width_in = kFigureWidthIn;
  layout.height_in = rows * (kTitleHeight + figure.panel_height_in) + total_below + legend_height + note_height;
  const double panel_width = (layout.width_in - total_left - kGap) / columns;

  double top = layout.height_in;
  for (int row = 0; row < rows; ++row) {
    top -= kTitleHeight;
    double x = 0;
    for (int column = 0; column < columns; ++column) {
      x += left[column];
      if (panel_at(row, column))
        layout.panels.push_back({x / layout.width_in, (x + panel_width) / layout.width_in,
                                 (top - figure.panel_height_in) / layout.height_in, top / layout.height_in});
      x += panel_width;
    }
    top -= figure.panel_height_in + below[row];
  }
  layout.legend_place = {0, 1, note_height / layout.height_in, (note_height + legend_height) / layout.height_in};
  layout.note_y = note_height / 2 / layout.height_in;
  return layout;
}

}  // namespace attest
