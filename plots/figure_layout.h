// Layout of a figure: positions in inches and ranges of the axes, independent of gnuplot.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plots/figure.h"

namespace attest {

struct Range {
  double low = 0;
  double high = 1;
};

/// Range of shown values on an axis of a panel: as given, else that of the data of all its series, with a margin.
/// `vertical`: the y axis, which also covers bands and reference lines.
Range axis_range(const Figure& figure, const Panel& panel, bool vertical);

/// Shown values that have tics. Axis of whole numbers: the values of the data if there are few, else a few round
/// numbers. Logarithmic axis: one or several per decade. Empty: gnuplot chooses.
std::optional<std::vector<double>> tic_values(const Figure& figure, const Panel& panel, bool vertical);

/// A rectangle in fractions of the figure, from its lower left corner.
struct Place {
  double left = 0, right = 1, bottom = 0, top = 1;
};

struct LegendEntry {
  std::string title;
  LineStyle style;
};

struct FigureLayout {
  double width_in = 0, height_in = 0;
  std::vector<Place> panels;  ///< the frame of each, without its labels
  std::vector<LegendEntry> legend;
  int legend_rows = 0;
  Place legend_place;
  double note_y = 0;       ///< vertical centre of the note
  bool has_rings = false;  ///< some series has rings, so the legend has an entry for them

  /// Centre of a rotated y label, left of the tic labels of the panel at `place`.
  double y_label_x(const Place& place) const;
};

FigureLayout layout_of(const Figure& figure);

/// Rows of the table that belong to a curve and have finite x and y.
std::vector<std::size_t> drawn_rows(const Figure& figure, const Series& series);

}  // namespace attest
