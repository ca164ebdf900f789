// Layout of a figure, independent of gnuplot: its size in inches, places in fractions of its width and height.
#pragma once

#include <string>
#include <vector>

#include "plots/axis.h"
#include "plots/figure.h"

namespace attest {

/// A rectangle in fractions of the figure, from its lower left corner.
struct Place {
  double left = 0, right = 1, bottom = 0, top = 1;
};

struct LegendEntry {
  std::string title;
  LineStyle style;
  bool line = true;    ///< with a line through the marker
  bool marker = true;  ///< false: the line alone
  bool is_ring = false;
  double x = 0, y = 0;  ///< left end of the sample and vertical centre, in fractions of the figure
};

/// A title or an axis label, centred at its panel.
struct PanelText {
  std::vector<std::string> lines;  ///< none of them leaves the page or meets the text of the next panel
  double y = 0;                    ///< vertical centre of the first, in fractions of the figure
};

struct FigureLayout {
  double width_in = 0, height_in = 0;
  double text_scale = 1;
  std::vector<Place> panels;                ///< the frame of each, without its labels
  std::vector<double> y_label_x;            ///< [panels] centre of the rotated y label
  std::vector<PanelText> titles, x_labels;  ///< [panels]
  double line = 0;                          ///< from one line to the next, in fractions of the figure's height
  std::vector<LegendEntry> legend;
  double legend_sample = 0;       ///< length of a sample line, in fractions of the figure's width
  std::vector<std::string> note;  ///< its lines
  std::vector<double> note_y;     ///< vertical centre of each

  TicSpace tic_space(std::size_t panel, AxisOf which) const;
};

/// Lengths and places are fractions of the figure's width and height, measured from its left and bottom, but where a
/// name says inches. The figure has a panel and at least one column.
FigureLayout layout_of(const Figure& figure, const PageStyle& page);

}  // namespace attest
