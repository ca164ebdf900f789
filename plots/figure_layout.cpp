// Computes margins, frames and the places of the legend's entries.
#include "plots/figure_layout.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "plots/axis.h"

namespace attest {
namespace {

// Inches, of text of 7 pt; text_scale() says how much larger a page's is. Widths of characters were measured on
// pictures.
constexpr double kTitleHeight = 0.16;            // a panel's title and the space around it
constexpr double kXLabels = 0.33;                // what tic labels and axis label take below a frame
constexpr double kYLabel = 0.13;                 // what the rotated axis label takes beside the tic labels
constexpr double kTicGap = 0.08;                 // between a tic's label and the frame
constexpr double kGap = 0.09;                    // between whatever else would touch, and at the edge of the page
constexpr double kColourBar = 0.14;              // the bar beside a heat map, with its gap to the frame
constexpr double kLegendRow = 0.118;             // from one row of the legend to the next
constexpr double kNoteHeight = 0.15;             // a note of one line and the space around it
constexpr double kCharacterWidth = 0.056;        // of letters, in legend and notes
constexpr double kLabelCharacterWidth = 0.0535;  // of letters of titles and axis labels, which may come closer
constexpr double kXLabelCentre = 0.24;           // from the frame to the middle of the axis label
constexpr double kLegendLine = 0.22;             // the sample line before a title of the legend
constexpr double kLegendSample = 0.36;           // that line and the spaces around it

/// How many characters fit on a line across the page beside `taken` inches (at 7 pt) of something else.
std::size_t characters_of_line(const FigureLayout& layout, double taken) {
  return static_cast<std::size_t>(std::max(8.0, (layout.width_in / layout.text_scale - taken) / kCharacterWidth));
}

/// The first `maximum` characters, and the rest.
std::pair<std::string, std::string> split(const std::string& text, std::size_t maximum) {
  std::size_t count = 0, at = 0;
  while (at < text.size() && !((text[at] & 0xC0) != 0x80 && ++count > maximum)) ++at;
  return {text.substr(0, at), text.substr(at)};
}

/// A title that is longer than a line of the legend is cut and gets an ellipsis.
std::string cut_to_line(const std::string& title, const FigureLayout& layout) {
  const std::size_t maximum = characters_of_line(layout, kLegendSample + kGap);
  return characters(title) <= maximum ? title : split(title, maximum - 1).first + "\u2026";
}

/// Lines of at most `maximum` characters, broken at spaces where there are any.
std::vector<std::string> lines_of(std::string text, std::size_t maximum) {
  std::vector<std::string> lines;
  while (characters(text) > maximum) {
    auto [line, rest] = split(text, maximum);
    if (const std::size_t space = line.rfind(' '); !rest.starts_with(' ') && space != line.npos && space > 0) {
      rest = line.substr(space) + rest;
      line.resize(space);
    }
    lines.push_back(line);
    text = rest.substr(rest.starts_with(' ') ? 1 : 0);
  }
  if (!text.empty()) lines.push_back(text);
  return lines;
}

/// The texts below or above the panels of a row in lines that stay on the page and do not meet. `centres`: of the
/// panels, inches.
std::vector<std::vector<std::string>> row_of_lines(const std::vector<std::string>& texts,
                                                   const std::vector<double>& centres, const FigureLayout& layout) {
  const double character = kLabelCharacterWidth * layout.text_scale;
  const auto width = [&](const std::vector<std::string>& lines) {
    std::size_t longest = 0;
    for (const std::string& line : lines) longest = std::max(longest, characters(line));
    return static_cast<double>(longest) * character;
  };
  const auto fit = [&](std::size_t i, double room) {
    return lines_of(texts[i], static_cast<std::size_t>(std::max(4.0, room / character)));
  };
  std::vector<std::vector<std::string>> lines;
  for (std::size_t i = 0; i < texts.size(); ++i)
    lines.push_back(fit(i, 2 * std::min(centres[i], layout.width_in - centres[i])));
  for (std::size_t i = 0; i + 1 < texts.size(); ++i)
    if (const double apart = centres[i + 1] - centres[i]; width(lines[i]) + width(lines[i + 1]) > 2 * apart)
      for (const std::size_t own : {i, i + 1})
        if (width(lines[own]) > apart - character) lines[own] = fit(own, apart - character);
  return lines;
}

int rows_of_panels(const Figure& figure) {
  return (static_cast<int>(figure.panels.size()) + figure.columns - 1) / figure.columns;
}

void add_entries(const Figure& figure, FigureLayout& layout) {
  bool has_rings = false;
  std::set<std::string> known;  // whole titles: two may be alike where they are cut
  for (const Panel& panel : figure.panels) {
    for (const Series& series : panel.series) {
      const std::vector<std::size_t> rows = drawn_rows(figure, series);
      if (rows.empty() || series.mark == Mark::cells) continue;
      if (!series.ring.empty() && !figure.ring_title.empty()) {
        const std::vector<double>& rings = figure.data.numbers(series.ring);
        has_rings |= std::ranges::any_of(rows, [&](std::size_t row) { return rings[row] == 1; });
      }
      if (!series.title.empty() && known.insert(series.title).second)
        layout.legend.push_back({.title = cut_to_line(series.title, layout),
                                 .style = series.style,
                                 .line = series.mark != Mark::points,
                                 .marker = series.mark != Mark::plain});
    }
  }
  if (has_rings)
    layout.legend.push_back({.title = cut_to_line(figure.ring_title, layout), .style = {}, .is_ring = true});
}

/// The legend's columns, filled from top to bottom.
struct LegendGrid {
  int rows = 0;
  std::vector<double> widths;  ///< inches, of each column
};

/// As many columns as fit.
LegendGrid legend_grid(const FigureLayout& layout) {
  const auto entries = static_cast<int>(layout.legend.size());
  for (int columns = entries; columns > 0; --columns) {
    LegendGrid grid{.rows = (entries + columns - 1) / columns, .widths = {}};
    double total = kGap;
    for (int first = 0; first < entries; first += grid.rows) {
      std::size_t longest = 0;
      for (int i = first; i < std::min(first + grid.rows, entries); ++i)
        longest = std::max(longest, characters(layout.legend[static_cast<std::size_t>(i)].title));
      grid.widths.push_back(layout.text_scale * (kLegendSample + kCharacterWidth * static_cast<double>(longest)));
      total += grid.widths.back();
    }
    if (total <= layout.width_in || columns == 1) return grid;
  }
  return {};
}

void place_entries(FigureLayout& layout, const LegendGrid& grid, double top) {
  if (grid.rows == 0) return;
  double left = layout.width_in;
  for (double width : grid.widths) left -= width;
  left = std::max(kGap / 2, left / 2);
  for (std::size_t i = 0; i < layout.legend.size(); ++i) {
    const auto column = static_cast<int>(i) / grid.rows, row = static_cast<int>(i) % grid.rows;
    if (row == 0 && column > 0) left += grid.widths[static_cast<std::size_t>(column) - 1];
    layout.legend[i].x = left / layout.width_in;
    layout.legend[i].y = (top - (row + 0.5) * kLegendRow * layout.text_scale) / layout.height_in;
  }
}

/// Width of the longest tic label of a vertical axis.
double label_width(const Figure& figure, const Panel& panel, AxisOf which, double height_in, double text_scale) {
  const TicSpace space{.length_in = height_in, .character_in = 0, .line_in = kLineHeight * text_scale};
  std::size_t longest = 1;
  for (const Tic& tic : axis_tics(figure, panel, which, space)) longest = std::max(longest, label_characters(tic));
  return text_scale * (kTicGap + kTicCharacterWidth * static_cast<double>(longest));
}

/// How far tic labels of a horizontal axis of this length reach beyond the right end of the frame.
double overhang(const Figure& figure, const Panel& panel, double length_in, double text_scale) {
  const TicSpace space{
      .length_in = length_in, .character_in = kTicCharacterWidth * text_scale, .line_in = kLineHeight * text_scale};
  const Range range = axis_range(figure, panel, AxisOf::x);
  const auto place = [&](double x) { return is_logarithmic(panel.x) ? std::log(x) : x; };
  double maximum = 0;
  for (const Tic& tic : axis_tics(figure, panel, AxisOf::x, space)) {
    const double from_low = (place(tic.at) - place(range.low)) / (place(range.high) - place(range.low));
    const double to_end = panel.x.scale == Scale::deficit ? from_low : 1 - from_low;  // quality grows to the right
    const double half = space.character_in * static_cast<double>(label_characters(tic)) / 2;
    if (std::isfinite(to_end)) maximum = std::max(maximum, half - to_end * length_in);
  }
  return maximum;
}

}  // namespace

TicSpace FigureLayout::tic_space(std::size_t panel, AxisOf which) const {
  const Place& place = panels[panel];
  if (which == AxisOf::x)
    return {.length_in = (place.right - place.left) * width_in,
            .character_in = kTicCharacterWidth * text_scale,
            .line_in = kLineHeight * text_scale};
  return {.length_in = (place.top - place.bottom) * height_in, .character_in = 0, .line_in = kLineHeight * text_scale};
}

FigureLayout layout_of(const Figure& figure, const PageStyle& page) {
  FigureLayout layout;
  layout.width_in = page.width_in;
  layout.text_scale = page.text_scale();
  const double text = layout.text_scale;
  add_entries(figure, layout);
  const LegendGrid legend = legend_grid(layout);
  layout.legend_sample = kLegendLine * text / layout.width_in;

  const PageStyle standard;
  const double panel_height =
      figure.panel_height_in * std::sqrt(page.width_in / standard.width_in * std::max(1.0, text));
  const int columns = figure.columns, rows = rows_of_panels(figure);
  auto index_of = [&](int row, int column) { return static_cast<std::size_t>(row * columns + column); };
  auto exists = [&](int row, int column) { return index_of(row, column) < figure.panels.size(); };
  std::vector<double> left(columns, kGap), right(columns, 0), below(rows, kGap * text);
  for (int row = 0; row < rows; ++row)
    for (int column = 0; column < columns; ++column) {
      if (!exists(row, column)) continue;
      const Panel& panel = figure.panels[index_of(row, column)];
      if (panel.show_y)
        left[column] = std::max(left[column],
                                kYLabel * text + kGap / 2 + label_width(figure, panel, AxisOf::y, panel_height, text));
      if (panel.colour)
        right[column] = std::max(
            right[column], kColourBar * text + kGap + label_width(figure, panel, AxisOf::colour, panel_height, text));
      if (panel.show_x) below[row] = kXLabels * text;
    }

  double beside = 0;
  for (double margin : left) beside += margin;
  for (double margin : right) beside += margin;
  double far_right = kGap;  // beside the last column, as much as its labels take
  for (int row = 0; row < rows; ++row)
    if (exists(row, columns - 1) && figure.panels[index_of(row, columns - 1)].show_x)
      far_right = std::max(far_right, overhang(figure, figure.panels[index_of(row, columns - 1)],
                                               (layout.width_in - beside - kGap) / columns, text));
  const double panel_width = (layout.width_in - beside - far_right) / columns;
  std::vector<double> frames, above(rows, kTitleHeight * text);  // left ends of the frames of a row
  double x = 0;
  for (int column = 0; column < columns; ++column) {
    x += left[column];
    frames.push_back(x);
    x += panel_width + right[column];
  }
  for (int row = 0; row < rows; ++row) {
    std::vector<std::string> titles, labels;
    std::vector<double> centres;
    for (int column = 0; column < columns && exists(row, column); ++column) {
      const Panel& panel = figure.panels[index_of(row, column)];
      titles.push_back(panel.title);
      labels.push_back(panel.show_x ? panel.x.label : "");
      centres.push_back(frames[static_cast<std::size_t>(column)] + panel_width / 2);
    }
    std::size_t max_above = 1, max_below = 1;
    for (std::vector<std::string>& lines : row_of_lines(titles, centres, layout)) {
      max_above = std::max(max_above, lines.size());
      layout.titles.push_back({.lines = std::move(lines)});
    }
    for (std::vector<std::string>& lines : row_of_lines(labels, centres, layout)) {
      max_below = std::max(max_below, lines.size());
      layout.x_labels.push_back({.lines = std::move(lines)});
    }
    above[row] += kLineHeight * text * static_cast<double>(max_above - 1);
    below[row] += kLineHeight * text * static_cast<double>(max_below - 1);
  }

  const double legend_height = legend.rows * kLegendRow * text + kGap / 2;
  layout.note = lines_of(figure.note, characters_of_line(layout, kGap));
  const double note_height =
      layout.note.empty() ? 0 : (kNoteHeight + kLineHeight * static_cast<double>(layout.note.size() - 1)) * text;
  layout.height_in = rows * panel_height + legend_height + note_height;
  for (int row = 0; row < rows; ++row) layout.height_in += above[row] + below[row];
  layout.line = kLineHeight * text / layout.height_in;

  double top = layout.height_in;
  for (int row = 0; row < rows; ++row) {
    top -= above[row];
    for (int column = 0; column < columns && exists(row, column); ++column) {
      const double at = frames[static_cast<std::size_t>(column)];
      layout.panels.push_back({at / layout.width_in, (at + panel_width) / layout.width_in,
                               (top - panel_height) / layout.height_in, top / layout.height_in});
      layout.y_label_x.push_back((at - left[column] + kGap / 2 + kYLabel * text / 2) / layout.width_in);
      PanelText &title = layout.titles[index_of(row, column)], &label = layout.x_labels[index_of(row, column)];
      title.y = (top + kTitleHeight * text / 2) / layout.height_in +
                layout.line * static_cast<double>(std::max<std::size_t>(title.lines.size(), 1) - 1);
      label.y = (top - panel_height - kXLabelCentre * text) / layout.height_in;
    }
    top -= panel_height + below[row];
  }
  place_entries(layout, legend, note_height + legend_height);
  for (std::size_t i = 0; i < layout.note.size(); ++i)
    layout.note_y.push_back((note_height - (kNoteHeight / 2 + kLineHeight * static_cast<double>(i)) * text) /
                            layout.height_in);
  return layout;
}

}  // namespace attest
