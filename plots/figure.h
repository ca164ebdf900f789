// A figure as data: panels of series over one table. It is written as a csv, a gnuplot script that a reader may edit
// and run on that csv, and the pictures that the script draws.
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

/// The column with the name of a row's curve. The rows of a curve are consecutive, in the order in which its line joins
/// them.
inline constexpr const char* kCurveColumn = "curve";

/// Shaded area between two columns, beneath the line. A curve of fewer than three points has no area and gets a bar at
/// each point.
struct Band {
  std::string low, high;
  double opacity = 0.2;
};

struct Series {
  /// Selects the rows with this name in the curve column. It has no comma, double quote or control character.
  std::string curve;
  std::string title;  ///< in the legend, where equal titles appear once; empty: no entry
  std::string x, y;   ///< number columns
  std::vector<Band> bands = {};
  LineStyle style = {};
  std::string ring = {};  ///< column that is 1 at points with a ring around them; empty: no rings
};

struct Axis {
  std::string label;  ///< with its unit
  double factor = 1;  ///< shown value = column * factor: 100 for per cent
  bool logarithmic = false;
  bool whole_numbers = false;                 ///< tics at integers only
  std::optional<double> low = {}, high = {};  ///< shown values; default: from the data
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
  bool show_x = true;  ///< tic labels and axis label; may be false above a panel with the same axis
  bool show_y = true;  ///< the same for y; may be false to the right of a panel with the same axis
};

struct Figure {
  std::string name;             ///< of the files: NAME.csv, NAME.gp, NAME.pdf, ...
  std::string caption = {};     ///< for the reader of the script and the paper; not drawn
  std::string note = {};        ///< one short line at the bottom that explains bands and rings
  std::string ring_title = {};  ///< legend entry that explains the rings
  Table data;
  int columns = 1;  ///< panels per row
  double panel_height_in = 1.1;
  std::vector<Panel> panels = {};
};

inline const std::vector<std::string> kFigureFormats = {"pdf", "svg", "png"};

/// The script. It reads NAME.csv from the folder in which it runs, and writes NAME.<format> for each word of the
/// variable `formats`. Throws std::logic_error when a series names a column that the table does not have, or a curve
/// that gnuplot cannot select.
std::string gnuplot_script(const Figure& figure);

/// Writes NAME.csv and NAME.gp into `folder`. Throws std::system_error when they cannot be written.
void write_figure_source(const Figure& figure, const std::filesystem::path& folder);

/// Draws `formats` in the folder that has the csv and the script. Without success none of these pictures remains.
GnuplotRun draw_figure(const Figure& figure, const std::filesystem::path& folder,
                       const std::vector<std::string>& formats,
                       std::chrono::milliseconds time_limit = kGnuplotTimeLimit);

}  // namespace attest
