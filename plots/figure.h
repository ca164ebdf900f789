// A figure as data: panels of series over one table. It is written as a csv, a gnuplot script that a reader may edit
// and run on that csv, and the pictures that the script draws.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "plots/gnuplot.h"
#include "plots/style.h"
#include "plots/table.h"

namespace attest {

/// The column with the name of a row's curve, as a CurveName in the csv. The rows of a curve are consecutive, in the
/// order in which its line joins them.
inline constexpr const char* kCurveColumn = "curve";

/// A name of a curve by which gnuplot can select it: it ends a cell of a csv at its first comma, and a doubled double
/// quote has no meaning. Both, and control characters, are replaced.
class CurveName {
 public:
  CurveName() = default;
  CurveName(std::string name);
  CurveName(const char* name) : CurveName(std::string(name)) {}
  const std::string& text() const { return text_; }
  bool operator==(const CurveName&) const = default;

 private:
  std::string text_;
};

/// Range between two columns, beneath the line: a shaded area, or a bar at each point. A curve of fewer than three
/// points always has bars.
struct Band {
  std::string low, high;
  double opacity = 0.2;
  bool bars = false;
};

enum class Mark : std::uint8_t {
  line,    ///< points joined in the order of the rows
  plain,   ///< the same without markers: a limit, an estimate
  points,  ///< points alone
  cells,   ///< a rectangle around (x, y), 1 high, in the colour of `value`: a heat map
};

struct Series {
  CurveName curve;    ///< selects the rows with this name in the curve column
  std::string title;  ///< in the legend, where equal titles appear once; empty: no entry
  std::string x, y;   ///< number columns
  std::vector<Band> bands = {};
  LineStyle style = {};
  std::string ring = {};  ///< column that is 1 at points with a ring around them; empty: no rings
  Mark mark = Mark::line;
  std::string value = {};               ///< the column of colours, of cells
  std::string x_low = {}, x_high = {};  ///< columns of the cells' left and right edges; empty: x - 0.5 and x + 0.5
};

enum class Scale : std::uint8_t {
  linear,
  logarithmic,
  binary,  ///< logarithmic, with tics at powers of two: 512, 4K, 64K, 1M
  /// An axis for a quality v that is at most 1: it shows 1 - v logarithmically, with the best end at the top or right.
  /// The tics are qualities: 0.9, 0.99, 0.999.
  deficit,
};

struct Axis {
  std::string label;  ///< with its unit
  double factor = 1;  ///< shown value = column * factor: 100 for per cent. Deficit: 1 - column.
  Scale scale = Scale::linear;
  bool whole_numbers = false;                 ///< tics at integers only
  std::optional<double> low = {}, high = {};  ///< shown values; default: from the data
  /// Logarithmic and deficit: shown values below it are drawn at it. Default: none if logarithmic (0 is not drawn); if
  /// deficit 1e-7, or a larger power of ten below the other values where some are smaller than 1e-7 (README.md).
  std::optional<double> floor = {};
};

/// A thin line across the panel at a shown value (1 - quality on a deficit axis), horizontal unless `vertical`.
struct ReferenceLine {
  double at = 0;
  std::string label = {};
  bool vertical = false;
};

/// A shaded part of the x axis, between two shown values, from the bottom of the panel to the top. What lies outside of
/// the panel is not drawn.
struct ShadedRange {
  double low = 0, high = 0;
};

struct Panel {
  std::string title;
  Axis x, y;
  std::vector<Series> series;
  std::vector<ReferenceLine> references = {};
  std::vector<ShadedRange> shaded = {};
  bool show_x = true;               ///< tic labels and axis label; may be false above a panel with the same axis
  bool show_y = true;               ///< the same for y; may be false to the right of a panel with the same axis
  std::optional<Axis> colour = {};  ///< of a heat map: its values, beside the panel
};

struct Figure {
  std::string name;             ///< of the files: NAME.csv, NAME.gp, NAME.pdf, ...
  std::string caption = {};     ///< for the reader of the script and the paper; not drawn
  std::string note = {};        ///< at the bottom: what bands and rings are
  std::string ring_title = {};  ///< legend entry that explains the rings
  Table data;
  int columns = 1;               ///< panels per row, at least 1
  double panel_height_in = 1.1;  ///< on a page of the default style
  std::vector<Panel> panels = {};
};

/// The title of panel `index`, counted from 0: "(b) tokens".
std::string panel_title(std::size_t index, const std::string& text);

inline const std::vector<std::string> kFigureFormats = {"pdf", "svg", "png", "tikz"};
inline const std::vector<std::string> kDefaultFormats = {"pdf", "svg", "png"};

/// "pdf svg": as the script takes them.
std::string format_words(const std::vector<std::string>& formats);

/// The gnuplot script. It reads NAME.csv from the folder in which it runs, and writes NAME.<format> for each word of
/// the variable `formats`. Throws std::logic_error when a series names a column that the table does not have.
Gnuplot gnuplot_script(const Figure& figure, const PageStyle& page = {});

/// Writes NAME.csv and NAME.gp into `folder`. Throws std::system_error when they cannot be written.
void write_figure_source(const Figure& figure, const PageStyle& page, const std::filesystem::path& folder);

/// Draws `formats` in the folder that has the csv and the script. Without success none of these pictures remains.
/// `time_limit`: for each.
GnuplotRun draw_figure(const Figure& figure, const std::filesystem::path& folder,
                       const std::vector<std::string>& formats,
                       std::chrono::milliseconds time_limit = kGnuplotTimeLimit);

}  // namespace attest
