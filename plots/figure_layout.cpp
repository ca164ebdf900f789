// Computes margins and the places of frames, titles and labels.
#include "plots/figure_layout.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "plots/axis.h"
#include "plots/figure_legend.h"
#include "plots/layout_lengths.h"
#include "plots/text_lines.h"

namespace attest {
namespace {

/// Width of the longest tic label of a vertical axis.
double label_width(const Figure& figure, const Panel& panel, AxisOf which, double height_in, double text_scale) {
  const TicSpace space{.length_in = height_in, .character_in = 0, .line_in = kLineHeight * text_scale};
  std::size_t longest = 1;
  for (const Tic& tic : axis_tics(figure, panel, which, space)) longest = std::max(longest, label_characters(tic));
  return text_scale * (kTicGap + kTicCharacterWidth * static_cast<double>(longest));
}

/// How far tic labels of a horizontal axis of this length reach beyond an end of the frame.
double overhang(const Figure& figure, const Panel& panel, bool right, double length_in, double text_scale) {
  const TicSpace space{
      .length_in = length_in, .character_in = kTicCharacterWidth * text_scale, .line_in = kLineHeight * text_scale};
  const Range range = axis_range(figure, panel, AxisOf::x);
  const auto place = [&](double x) { return is_logarithmic(panel.x) ? std::log(x) : x; };
  double maximum = 0;
  for (const Tic& tic : axis_tics(figure, panel, AxisOf::x, space)) {
    const double from_low = (place(tic.at) - place(range.low)) / (place(range.high) - place(range.low));
    const bool low_end = right == (panel.x.scale == Scale::deficit);  // quality grows to the right
    const double to_end = low_end ? from_low : 1 - from_low;
    const double half = space.character_in * static_cast<double>(label_characters(tic)) / 2;
    if (std::isfinite(to_end)) maximum = std::max(maximum, half - to_end * length_in);
  }
  return maximum;
}

/// The panels in rows and columns, the last row perhaps not full.
struct PanelGrid {
  const Figure& figure;
  double panel_height;  ///< inches
  int columns = figure.columns, rows = (static_cast<int>(figure.panels.size()) + columns - 1) / columns;

  std::size_t index_of(int row, int column) const { return static_cast<std::size_t>(row * columns + column); }
  /// Null where the last row has no panel.
  const Panel* at(int row, int column) const {
    const std::size_t index = index_of(row, column);
    return index < figure.panels.size() ? &figure.panels[index] : nullptr;
  }
};

/// Inches across the page.
struct Columns {
  std::vector<double> left, right;  ///< [columns] what stands beside a frame
  std::vector<double> frames;       ///< [columns] left ends of the frames
  double width = 0;                 ///< of a frame
};

/// Inches down the page.
struct Rows {
  std::vector<double> above, below;  ///< [rows] what stands above and below the frames
};

/// Makes room for the labels of y axes and for colour bars.
Columns room_beside_frames(const PanelGrid& grid, double text) {
  Columns room{.left = std::vector(grid.columns, kGap * text), .right = std::vector(grid.columns, 0.0), .frames = {}};
  const auto widen = [&](double& side, double fixed, const Panel& panel, AxisOf which) {
    side = std::max(side, fixed * text + label_width(grid.figure, panel, which, grid.panel_height, text));
  };
  for (int row = 0; row < grid.rows; ++row)
    for (int column = 0; column < grid.columns; ++column) {
      const Panel* panel = grid.at(row, column);
      if (panel != nullptr && panel->show_y) widen(room.left[column], kYLabel + kGap / 2, *panel, AxisOf::y);
      if (panel != nullptr && panel->colour) widen(room.right[column], kColourBar + kGap, *panel, AxisOf::colour);
    }
  return room;
}

/// Adds room for tic labels of x axes, which reach beyond the frames. The frames share the width that is left.
Columns columns_of(const PanelGrid& grid, const FigureLayout& layout) {
  const double text = layout.text_scale;
  Columns columns = room_beside_frames(grid, text);
  const auto frame_width = [&](double far_right) {
    return (layout.width_in - std::reduce(columns.left.begin(), columns.left.end()) -
            std::reduce(columns.right.begin(), columns.right.end()) - far_right) /
           grid.columns;
  };
  double far_right = kGap * text;  // beside the last column, as much as its labels take
  const double widest = frame_width(far_right);
  const auto reach = [&](int row, int column, bool to_right) {
    const Panel* panel = grid.at(row, column);
    return panel != nullptr && panel->show_x ? overhang(grid.figure, *panel, to_right, widest, text) : 0.0;
  };
  for (int row = 0; row < grid.rows; ++row) {
    far_right = std::max(far_right, reach(row, grid.columns - 1, true));
    for (int column = 1; column < grid.columns; ++column) {
      const double labels = reach(row, column - 1, true) + reach(row, column, false);
      columns.left[column] =
          std::max(columns.left[column], labels + kTicCharacterWidth * text - columns.right[column - 1]);
    }
  }
  columns.width = frame_width(far_right);
  double x = 0;
  for (int column = 0; column < grid.columns; ++column) {
    x += columns.left[column];
    columns.frames.push_back(x);
    x += columns.width + columns.right[column];
  }
  return columns;
}

/// Adds the lines of titles and x labels to the layout, and makes room for them.
Rows rows_of(const PanelGrid& grid, const Columns& columns, FigureLayout& layout) {
  const double text = layout.text_scale;
  Rows rows{.above = std::vector(grid.rows, kTitleHeight * text), .below = std::vector(grid.rows, kGap * text)};
  const auto add_lines = [&](const std::vector<std::string>& texts, const std::vector<double>& centres,
                             std::vector<PanelText>& added) {
    std::size_t most = 1;
    for (std::vector<std::string>& lines : row_of_lines(texts, centres, layout)) {
      most = std::max(most, lines.size());
      added.push_back({.lines = std::move(lines)});
    }
    return kLineHeight * text * static_cast<double>(most - 1);
  };
  for (int row = 0; row < grid.rows; ++row) {
    std::vector<std::string> titles, labels;
    std::vector<double> centres;
    for (int column = 0; column < grid.columns && grid.at(row, column) != nullptr; ++column) {
      const Panel& panel = *grid.at(row, column);
      titles.push_back(panel.title);
      labels.push_back(panel.show_x ? panel.x.label : "");
      centres.push_back(columns.frames[static_cast<std::size_t>(column)] + columns.width / 2);
      if (panel.show_x) rows.below[row] = kXLabels * text;
    }
    rows.above[row] += add_lines(titles, centres, layout.titles);
    rows.below[row] += add_lines(labels, centres, layout.x_labels);
  }
  return rows;
}

/// Places frames, titles and axis labels on a page whose height is known.
void place_panels(const PanelGrid& grid, const Columns& columns, const Rows& rows, FigureLayout& layout) {
  const double text = layout.text_scale;
  double top = layout.height_in;
  for (int row = 0; row < grid.rows; ++row) {
    top -= rows.above[row];
    for (int column = 0; column < grid.columns && grid.at(row, column) != nullptr; ++column) {
      const double at = columns.frames[static_cast<std::size_t>(column)];
      layout.panels.push_back({at / layout.width_in, (at + columns.width) / layout.width_in,
                               (top - grid.panel_height) / layout.height_in, top / layout.height_in});
      layout.y_label_x.push_back((at - columns.left[column] + kGap / 2 * text + kYLabel * text / 2) / layout.width_in);
      PanelText &title = layout.titles[grid.index_of(row, column)],
                &label = layout.x_labels[grid.index_of(row, column)];
      title.y = (top + kTitleHeight * text / 2) / layout.height_in +
                layout.line * static_cast<double>(std::max<std::size_t>(title.lines.size(), 1) - 1);
      label.y = (top - grid.panel_height - kXLabelCentre * text) / layout.height_in;
    }
    top -= grid.panel_height + rows.below[row];
  }
}

/// Breaks the note into lines. Returns the inches that it takes.
double add_note(const std::string& note, FigureLayout& layout) {
  layout.note = lines_of(note, characters_of_line(layout, kGap));
  return layout.note.empty()
             ? 0
             : (kNoteHeight + kLineHeight * static_cast<double>(layout.note.size() - 1)) * layout.text_scale;
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

  const double larger = page.width_in / PageStyle().width_in * std::max(1.0, text);
  const PanelGrid grid{.figure = figure, .panel_height = figure.panel_height_in * std::sqrt(larger)};
  const Columns columns = columns_of(grid, layout);
  const Rows rows = rows_of(grid, columns, layout);
  const double legend_height = (legend.rows * kLegendRow + kGap / 2) * text;
  const double note_height = add_note(figure.note, layout);
  layout.height_in = grid.rows * grid.panel_height + legend_height + note_height;
  for (int row = 0; row < grid.rows; ++row) layout.height_in += rows.above[row] + rows.below[row];
  layout.line = kLineHeight * text / layout.height_in;

  place_panels(grid, columns, rows, layout);
  place_entries(layout, legend, note_height + legend_height);
  for (std::size_t i = 0; i < layout.note.size(); ++i)
    layout.note_y.push_back((note_height - (kNoteHeight / 2 + kLineHeight * static_cast<double>(i)) * text) /
                            layout.height_in);
  return layout;
}

}  // namespace attest
