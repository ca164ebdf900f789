// Axes, reference lines, bands, curves, points and cells of a panel as gnuplot commands.
#include "plots/panel_script.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace attest {
namespace {

const Gnuplot kNoText = "''";

Gnuplot tic_list(const std::vector<Tic>& tics, bool labels) {
  std::vector<Gnuplot> items;
  for (const Tic& tic : tics) items.push_back(gnuplot("{} {:g}", labels ? script_text(tic.label) : kNoText, tic.at));
  return gnuplot("({})", joined(items, Gnuplot(", ")));
}

/// Scale, range and tics of an axis. A deficit axis runs from the largest deficit to the least, so that the best end is
/// at the top or right.
Gnuplot axis_script(const Figure& figure, std::size_t index, const FigureLayout& layout, AxisOf which) {
  const Panel& panel = figure.panels[index];
  const Axis& axis = axis_of(panel, which);
  const Gnuplot name = which == AxisOf::x ? Gnuplot("x") : which == AxisOf::y ? Gnuplot("y") : Gnuplot("cb");
  Range range = axis_range(figure, panel, which);
  if (axis.scale == Scale::deficit) std::swap(range.low, range.high);
  const bool labels = which == AxisOf::colour || (which == AxisOf::x ? panel.show_x : panel.show_y);
  const std::vector<Tic> tics = axis_tics(figure, panel, which, layout.tic_space(index, which));
  return gnuplot("  unset logscale {0}; {1}set {0}range [{2:.6g}:{3:.6g}]; set {0}tics {4}\n", name,
                 axis.scale == Scale::linear ? Gnuplot() : gnuplot("set logscale {}; ", name), range.low, range.high,
                 tic_list(tics, labels));
}

/// A column's values in the units shown on the axis. `cell` is the expression of the raw value.
Gnuplot shown_expression(const Gnuplot& cell, const Figure& figure, const Panel& panel, AxisOf which) {
  const Axis& axis = axis_of(panel, which);
  Gnuplot text = cell;
  if (axis.scale == Scale::deficit)
    text = gnuplot("1 - {}", cell);
  else if (axis.factor != 1)
    text = gnuplot("{}*{:g}", cell, axis.factor);
  const std::optional<double> floor = axis_floor(figure, panel, which);
  return floor ? gnuplot("atleast({:g}, {})", *floor, text) : text;
}

Gnuplot column(const std::string& name) { return gnuplot("column({})", gnuplot_text(name)); }

Gnuplot band_command(const Figure& figure, const Panel& panel, const Band& band, const Gnuplot& x, bool bars,
                     std::size_t style) {
  const Gnuplot low = shown_expression(column(band.low), figure, panel, AxisOf::y);
  const Gnuplot high = shown_expression(column(band.high), figure, panel, AxisOf::y);
  if (bars)
    return gnuplot("data using ({}):({}):(0):({} - {}) with vectors nohead ls {} lw {:g} dt solid notitle", x, low,
                   high, low, style, 0.8 + 4 * band.opacity);
  return gnuplot("data using ({}):({}):({}) with filledcurves ls {} fs transparent solid {:g} noborder notitle", x, low,
                 high, style, band.opacity);
}

/// Markers of a line with many points are fewer and smaller: they would hide it. Those of one or two are larger: bars
/// would hide them.
LineStyle fitted(LineStyle style, std::size_t points) {
  constexpr std::size_t kFew = 3, kMany = 16;
  if (points < kFew) style.point_size *= 1.4;
  if (points > kMany) style.point_size *= 0.7;
  return style;
}

Gnuplot marker_interval(std::size_t points) {
  constexpr std::size_t kMaxMarkers = 20;
  return points <= kMaxMarkers ? Gnuplot() : gnuplot(" pi {}", (points + kMaxMarkers - 1) / kMaxMarkers);
}

/// Bands first, then curves and points, then rings, so that none is hidden.
std::vector<Gnuplot> plot_commands(const Figure& figure, const Panel& panel, StyleList& styles) {
  std::vector<Gnuplot> bands, lines, rings;
  for (const Series& series : panel.series) {
    const std::size_t points = drawn_rows(figure, series).size();
    if (points == 0) continue;
    const Gnuplot raw_x = gnuplot("only({}, {})", gnuplot_text(series.curve.text()), gnuplot_text(series.x));
    const Gnuplot x = shown_expression(raw_x, figure, panel, AxisOf::x);
    const Gnuplot y = shown_expression(column(series.y), figure, panel, AxisOf::y);
    if (series.mark == Mark::cells) {
      const bool square = series.x_low.empty();
      const auto edge = [&](const std::string& name, const Gnuplot& by_half) {
        return square ? gnuplot("{} {} 0.5", x, by_half) : shown_expression(column(name), figure, panel, AxisOf::x);
      };
      lines.push_back(gnuplot(
          "data using ({0}):({1}):({2}):({3}):({1} - 0.5):({1} + 0.5):({4}) with boxxyerror fc palette fs solid "
          "noborder notitle",
          x, y, edge(series.x_low, "-"), edge(series.x_high, "+"),
          shown_expression(column(series.value), figure, panel, AxisOf::colour)));
      continue;
    }
    const bool joined = series.mark == Mark::line;
    const std::size_t style = styles.number_of(joined ? fitted(series.style, points) : series.style);
    for (const Band& band : series.bands)
      bands.push_back(band_command(figure, panel, band, x, band.bars || points < 3, style));
    const Gnuplot mark = series.mark == Mark::plain ? Gnuplot("lines")
                         : joined                   ? Gnuplot("linespoints")
                                                    : Gnuplot("points");
    lines.push_back(gnuplot("data using ({}):({}) with {} ls {}{} notitle", x, y, mark, style,
                            joined ? marker_interval(points) : Gnuplot()));
    if (!series.ring.empty())
      rings.push_back(gnuplot("data using ({} == 1 ? {} : NaN):({}) with points ls {} notitle", column(series.ring), x,
                              y, kRingStyle));
  }
  bands.insert(bands.end(), lines.begin(), lines.end());
  bands.insert(bands.end(), rings.begin(), rings.end());
  return bands;
}

Gnuplot reference_script(const ReferenceLine& line) {
  const Gnuplot ends = line.vertical ? gnuplot("first {0:g}, graph 0 to first {0:g}, graph 1", line.at)
                                     : gnuplot("graph 0, first {0:g} to graph 1, first {0:g}", line.at);
  Gnuplot text = gnuplot("  set arrow from {} nohead back dt (4,3) lw 0.6 lc rgb {}\n", ends, gnuplot_text(kMutedInk));
  if (line.label.empty()) return text;
  return text +
         (line.vertical
              ? gnuplot("  set label {} noenhanced at first {:g}, graph 0.95 left offset 0.3,0 tc rgb {} back\n",
                        script_text(line.label), line.at, gnuplot_text(kMutedInk))
              : gnuplot("  set label {} noenhanced at graph 0.98, first {:g} right offset 0,-0.5 tc rgb {} back\n",
                        script_text(line.label), line.at, gnuplot_text(kMutedInk)));
}

/// A shaded range, which gnuplot clips to the frame.
Gnuplot shade_script(const ShadedRange& range) {
  return gnuplot(
      "  set object rectangle from first {:g}, graph 0 to first {:g}, graph 1 behind fc rgb {} fs solid noborder\n",
      range.low, range.high, gnuplot_text(kShade));
}

/// The bar of colours to the right of the frame.
Gnuplot colour_script(const Figure& figure, std::size_t index, const FigureLayout& layout) {
  const Place& place = layout.panels[index];
  const double inch = layout.text_scale / layout.width_in;
  return axis_script(figure, index, layout, AxisOf::colour) +
         gnuplot(
             "  set colorbox vertical user origin screen {:.4f}, screen {:.4f} size screen {:.4f}, screen {:.4f} "
             "noborder\n",
             place.right + 0.05 * inch, place.bottom, 0.07 * inch, place.top - place.bottom);
}

/// A text of several lines is a label for each: gnuplot's own titles break lines, but not in LaTeX.
Gnuplot lines_script(const PanelText& text, const Place& place, double line) {
  Gnuplot script;
  for (std::size_t i = 0; i < text.lines.size() && text.lines.size() > 1; ++i)
    script += gnuplot("  set label {} noenhanced at screen {:.4f}, screen {:.4f} center\n", script_text(text.lines[i]),
                      (place.left + place.right) / 2, text.y - line * static_cast<double>(i));
  return script;
}

/// The text if it has one line, which gnuplot places; empty if there are several.
Gnuplot only_line(const PanelText& text) { return text.lines.size() == 1 ? script_text(text.lines[0]) : kNoText; }

}  // namespace

Gnuplot script_text(const std::string& text) {
  const std::string latex = latex_text(text).text();
  if (latex == text) return gnuplot_text(text);
  return gnuplot("shown({}, {})", gnuplot_text(text), gnuplot_text(latex));
}

std::size_t StyleList::number_of(const LineStyle& style) {
  const auto transparency = static_cast<int>(std::lround((1 - style.opacity) * 255));
  const std::string colour =
      transparency == 0 ? style.colour : fmt::format("#{:02x}{}", transparency, style.colour.substr(1));
  const Gnuplot definition =
      gnuplot("lc rgb {} lw {:g} dt {} pt {} ps {:g}", gnuplot_text(colour), style.line_width * line_scale_, style.dash,
              style.point_type, style.point_size * line_scale_);
  auto found = std::ranges::find(definitions_, definition);
  if (found == definitions_.end()) found = definitions_.insert(definitions_.end(), definition);
  return number_at(static_cast<std::size_t>(found - definitions_.begin()));
}

std::size_t StyleList::number_at(std::size_t index) { return index + 1 < kRingStyle ? index + 1 : index + 2; }

Gnuplot StyleList::definitions() const {
  Gnuplot lines;
  for (std::size_t i = 0; i < definitions_.size(); ++i)
    lines += gnuplot("set style line {} {}\n", number_at(i), definitions_[i]);
  return lines + gnuplot("set style line {} lc rgb {} lw {:g} pt 6 ps {:g}\n", kRingStyle, gnuplot_text(kInk),
                         0.7 * line_scale_, 0.85 * line_scale_);
}

Gnuplot margins(const Place& place) {
  return gnuplot(
      "  set lmargin at screen {:.4f}; set rmargin at screen {:.4f}\n"
      "  set bmargin at screen {:.4f}; set tmargin at screen {:.4f}\n",
      place.left, place.right, place.bottom, place.top);
}

Gnuplot panel_script(const Figure& figure, std::size_t index, const FigureLayout& layout, StyleList& styles) {
  const Panel& panel = figure.panels[index];
  const Place& place = layout.panels[index];
  if (panel.title.empty() && panel.series.empty()) return {};  // fills up a row
  const PanelText &title = layout.titles[index], &x_label = layout.x_labels[index];
  Gnuplot text = gnuplot("\n  set title {} noenhanced offset 0,-0.7\n", only_line(title)) + margins(place);
  text += axis_script(figure, index, layout, AxisOf::x) + axis_script(figure, index, layout, AxisOf::y);
  text += panel.colour ? colour_script(figure, index, layout) : "  unset colorbox\n";
  text += gnuplot("  set xlabel {} noenhanced offset 0,0.6\n", only_line(x_label));
  text += "  unset arrow; unset label; unset object\n";
  text += lines_script(title, place, layout.line) + lines_script(x_label, place, layout.line);
  if (panel.show_y)
    text += gnuplot("  set label {} noenhanced at screen {:.4f}, screen {:.4f} center rotate by 90 tc rgb {}\n",
                    script_text(panel.y.label), layout.y_label_x[index], (place.bottom + place.top) / 2,
                    gnuplot_text(kInk));
  for (const ShadedRange& range : panel.shaded) text += shade_script(range);
  for (const ReferenceLine& line : panel.references) text += reference_script(line);
  const std::vector<Gnuplot> commands = plot_commands(figure, panel, styles);
  if (commands.empty()) return text + "  plot NaN notitle\n";
  text += "  plot ";
  return text + joined(commands, Gnuplot(", \\\n    ")) + "\n";
}

}  // namespace attest
