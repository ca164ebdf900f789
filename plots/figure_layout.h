// Where things stand in a figure: inches and data ranges, before any gnuplot.
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

/// Shown values that the axis of a panel spans: as given, else the data of all its series with a margin. `vertical`:
/// the y axis, bands and reference lines included.
Range axis_range(const Figure& figure, const Panel& panel, bool vertical);

/// Shown values that have tics: at the data of a whole-number axis when it is at few of them, else few and round; one,
/// two or three a decade of a logarithmic axis. Empty: gnuplot chooses.
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
  double note_y = 0;       ///< of the note's middle
  bool has_rings = false;  ///< some series has a ring to explain: one more entry of the legend

  /// Where the middle of a rotated y label stands, left of the tic labels of the panel at `place`.
  double y_label_x(const Place& place) const;
};

FigureLayout layout_of(const Figure& figure);

/// Rows of the table that belong to a curve and have finite x and y.
std::vector<std::size_t> drawn_rows(const Figure& figure, const Series& series);

}  // namespace attest
