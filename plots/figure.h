// A figure as data: panels of series over one table. From it come a csv, a gnuplot script that a reader may edit and
// run on that csv, and the pictures that the script draws.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "plots/gnuplot.h"
#include "plots/style.h"
#include "plots/table.h"

namespace attest {

/// The column that says which curve a row belongs to. Rows of one curve stand together, in the order in which a line
/// joins them.
inline constexpr const char* kCurveColumn = "curve";

/// Shaded between two columns, beneath the line; a bar at each point where a curve has fewer than three, too few for an
/// area.
struct Band {
  std::string low, high;
  double opacity = 0.2;
};

struct Series {
  std::string curve;  ///< takes the rows with this in the curve column; no comma, double quote or control character
  std::string title;  ///< in the legend, where equal titles appear once; empty: not there
  std::string x, y;   ///< number columns
  std::vector<Band> bands = {};
  LineStyle style = {};
  std::string ring = {};  ///< column: a ring around each point where it is 1; empty: none
};

struct Axis {
  std::string label;  ///< with its unit
  double factor = 1;  ///< shown value = column * factor: 100 for per cent
  bool logarithmic = false;
  bool whole_numbers = false;                 ///< tics at integers only
  std::optional<double> low = {}, high = {};  ///< shown values; from the data unless given
};

/// A thin line across the panel, at a shown value.
struct ReferenceLine {
  double y = 0;
  std::string label = {};
};

struct Panel {
  std::string title;
  Axis x, y;
  std::vector<Series> series;
  std::vector<ReferenceLine> references = {};
  bool show_x = true;  ///< tic labels and axis label; a panel above one with the same axis may leave them to that one
  bool show_y = true;  ///< the same for a panel to the right of one
};

struct Figure {
  std::string name;             ///< of the files: NAME.csv, NAME.gp, NAME.pdf, ...
  std::string caption = {};     ///< for the reader of the script and the paper; not drawn
  std::string note = {};        ///< one short line at the foot: what bands and rings are
  std::string ring_title = {};  ///< what a ring means, in the legend
  Table data;
  int columns = 1;  ///< panels fill rows of this many
  double panel_height_in = 1.1;
  std::vector<Panel> panels = {};
};

inline const std::vector<std::string> kFigureFormats = {"pdf", "svg", "png"};

/// The script: reads NAME.csv from the folder it is run in, writes NAME.<format> for the words of the variable
/// `formats`. Throws std::logic_error when a series names a column that the table has not, or a curve that gnuplot
/// cannot.
std::string gnuplot_script(const Figure& figure);

/// Writes NAME.csv and NAME.gp into `folder`. Throws std::system_error when they cannot be written.
void write_figure_source(const Figure& figure, const std::filesystem::path& folder);

/// Draws `formats` beside the source.
GnuplotRun draw_figure(const Figure& figure, const std::filesystem::path& folder,
                       const std::vector<std::string>& formats,
                       std::chrono::milliseconds time_limit = kGnuplotTimeLimit);

}  // namespace attest
