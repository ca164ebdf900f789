// Writes the gnuplot script of a figure.
#include "plots/figure.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <optional>
#include <sstream>
#include <system_error>

#include "plots/figure_layout.h"
#include "plots/picture_check.h"

namespace attest {
namespace {

/// A comment line of the script.
std::string comment(std::string text) {
  std::ranges::replace_if(
      text, [](unsigned char c) { return c < 0x20; }, ' ');
  return "# " + text + "\n";
}

/// The distinct styles of a figure; a style's number in the script is its index + 1.
class StyleList {
 public:
  std::size_t number_of(const LineStyle& style) {
    const std::string definition = fmt::format("lc rgb '{}' lw {:g} dt {} pt {} ps {:g}", style.colour,
                                               style.line_width, style.dash, style.point_type, style.point_size);
    auto found = std::ranges::find(definitions_, definition);
    if (found == definitions_.end()) found = definitions_.insert(definitions_.end(), definition);
    return static_cast<std::size_t>(found - definitions_.begin()) + 1;
  }
  std::string text() const {
    std::string lines;
    for (std::size_t i = 0; i < definitions_.size(); ++i)
      lines += fmt::format("set style line {} {}\n", i + 1, definitions_[i]);
    return lines;
  }

 private:
  std::vector<std::string> definitions_;
};

// The cairo and svg terminals use different units for points. These factors, measured on their output, give a font
// size, a line width and a marker the same size in print with all three.
std::string terminals(const FigureLayout& layout) {
  const double w = layout.width_in, h = layout.height_in;
  constexpr double kCssDotsPerInch = 96, kPointsPerInch = 72;
  const double css = kCssDotsPerInch / kPointsPerInch;
  const double png = kPngDotsPerInch / kPointsPerInch;
  std::string text;
  text += "  if (format eq 'pdf') {\n";
  text += fmt::format("    set terminal pdfcairo size {:.3f}in,{:.3f}in font font fontscale 0.75 linewidth 2\n", w, h);
  text += "  }\n  if (format eq 'svg') {\n";
  text += fmt::format(
      "    set terminal svg size {:.0f},{:.0f} font font fontscale {:.4f} linewidth {:.4f} background 'white'\n",
      w * kCssDotsPerInch, h * kCssDotsPerInch, css, css);
  text += "  }\n  if (format eq 'png') {\n";
  text += fmt::format(
      "    set terminal pngcairo size {:.0f},{:.0f} font font fontscale {:.4f} linewidth {:.4f} pointscale {:.4f}\n",
      w * kPngDotsPerInch, h * kPngDotsPerInch, png / css, png, png);
  text += "  }\n";
  return text;
}

std::string margins(const Place& place) {
  return fmt::format(
      "  set lmargin at screen {:.4f}; set rmargin at screen {:.4f}\n"
      "  set bmargin at screen {:.4f}; set tmargin at screen {:.4f}\n",
      place.left, place.right, place.bottom, place.top);
}

std::string tics(char name, const Figure& figure, const Panel& panel, bool labels) {
  const bool vertical = name == 'y';
  const Range range = axis_range(figure, panel, vertical);
  const std::optional<std::vector<double>> values = tic_values(figure, panel, vertical);
  return fmt::format("  unset logscale {0}; {1}set {0}range [{2:.6g}:{3:.6g}]; set format {0} {4}; set {0}tics {5}\n",
                     name, (vertical ? panel.y : panel.x).logarithmic ? fmt::format("set logscale {}; ", name) : "",
                     range.low, range.high, labels ? "'%g'" : "''",
                     values ? fmt::format("({:g})", fmt::join(*values, ", ")) : "autofreq");
}

/// In gnuplot, strcol() ends a quoted csv cell at its first comma, and a doubled double quote has no meaning.
void check_curve_name(const std::string& curve) {
  if (std::ranges::any_of(curve, [](unsigned char c) { return c == ',' || c == '"' || c < 0x20; }))
    throw std::logic_error(fmt::format("gnuplot cannot select the curve '{}'", curve));
}

/// A column's values in the units shown on the axis.
std::string shown(const std::string& column, double factor) {
  return fmt::format("column({})", gnuplot_quoted(column)) + (factor == 1 ? "" : fmt::format("*{:g}", factor));
}

std::string band_command(const Panel& panel, const Band& band, const std::string& x, bool bars, std::size_t style) {
  const std::string low = shown(band.low, panel.y.factor), high = shown(band.high, panel.y.factor);
  if (bars)
    return fmt::format("data using ({}):({}):(0):({} - {}) with vectors nohead ls {} lw {:g} dt solid notitle", x, low,
                       high, low, style, 1 + 6 * band.opacity);
  return fmt::format("data using ({}):({}):({}) with filledcurves ls {} fs transparent solid {:g} noborder notitle", x,
                     low, high, style, band.opacity);
}

/// Smaller markers for a curve with many points: they would hide its line.
LineStyle fitted(LineStyle style, std::size_t points) {
  constexpr std::size_t kMany = 16;
  if (points > kMany) style.point_size *= 0.6;
  return style;
}

std::vector<std::string> plot_commands(const Figure& figure, const Panel& panel, StyleList& styles) {
  std::vector<std::string> bands, lines, rings;
  for (const Series& series : panel.series) {
    check_curve_name(series.curve);
    const std::size_t points = drawn_rows(figure, series).size();
    if (points == 0) continue;
    const std::size_t style = styles.number_of(fitted(series.style, points));
    std::string x = fmt::format("only({}, {})", gnuplot_quoted(series.curve), gnuplot_quoted(series.x));
    if (panel.x.factor != 1) x += fmt::format("*{:g}", panel.x.factor);
    const std::string y = shown(series.y, panel.y.factor);
    for (const Band& band : series.bands) bands.push_back(band_command(panel, band, x, points < 3, style));
    lines.push_back(fmt::format("data using ({}):({}) with linespoints ls {} notitle", x, y, style));
    if (!series.ring.empty())
      rings.push_back(
          fmt::format("data using ({} == 1 ? {} : NaN):({}) with points ls 100 notitle", shown(series.ring, 1), x, y));
  }
  bands.insert(bands.end(), lines.begin(), lines.end());
  bands.insert(bands.end(), rings.begin(), rings.end());
  return bands;
}

std::string panel_text(const Figure& figure, const Panel& panel, const FigureLayout& layout, const Place& place,
                       StyleList& styles) {
  std::string text =
      fmt::format("\n  set title {} noenhanced offset 0,-0.7\n", gnuplot_quoted(panel.title)) + margins(place);
  text += tics('x', figure, panel, panel.show_x) + tics('y', figure, panel, panel.show_y);
  text += fmt::format("  set xlabel {} noenhanced offset 0,0.6\n", gnuplot_quoted(panel.show_x ? panel.x.label : ""));
  text += "  unset arrow; unset label\n";
  if (panel.show_y)
    text += fmt::format("  set label {} noenhanced at screen {:.4f}, screen {:.4f} center rotate by 90 tc rgb '{}'\n",
                        gnuplot_quoted(panel.y.label), layout.y_label_x(place), (place.bottom + place.top) / 2, kInk);
  for (const ReferenceLine& line : panel.references) {
    text += fmt::format(
        "  set arrow from graph 0, first {0:g} to graph 1, first {0:g} nohead back dt (4,3) lw 0.6 lc rgb '{1}'\n",
        line.y, kMutedInk);
    if (!line.label.empty())
      text += fmt::format("  set label {} noenhanced at graph 0.98, first {:g} right offset 0,-0.5 tc rgb '{}' back\n",
                          gnuplot_quoted(line.label), line.y, kMutedInk);
  }
  const std::vector<std::string> commands = plot_commands(figure, panel, styles);
  if (commands.empty()) return text + "  plot NaN notitle\n";
  text += "  plot ";
  for (std::size_t i = 0; i < commands.size(); ++i) text += (i == 0 ? "" : ", \\\n    ") + commands[i];
  return text + "\n";
}

/// An empty plot below the panels, for the legend and the note.
std::string legend_text(const Figure& figure, const FigureLayout& layout, StyleList& styles) {
  std::string text = "\n  unset title; unset xlabel; unset border; unset tics; unset grid; unset logscale\n";
  text += "  unset arrow; unset label; set xrange [0:1]; set yrange [0:1]\n" + margins(layout.legend_place);
  if (!figure.note.empty())
    text += fmt::format("  set label {} noenhanced at screen 0.5, screen {:.4f} center tc rgb '{}'\n",
                        gnuplot_quoted(figure.note), layout.note_y, kMutedInk);
  text += fmt::format("  set key center center vertical Left reverse maxrows {} samplen 2.5 spacing 0.95 noenhanced\n",
                      std::max(layout.legend_rows, 1));
  text += "  plot NaN notitle";
  for (const LegendEntry& entry : layout.legend)
    text += fmt::format(", \\\n    NaN with linespoints ls {} title {}", styles.number_of(entry.style),
                        gnuplot_quoted(entry.title));
  if (layout.has_rings)
    text += fmt::format(", \\\n    NaN with points ls 100 title {}", gnuplot_quoted(figure.ring_title));
  return text + "\n";
}

}  // namespace

std::string gnuplot_script(const Figure& figure) {
  const FigureLayout layout = layout_of(figure);
  StyleList styles;
  std::string body;
  for (std::size_t i = 0; i < figure.panels.size(); ++i)
    body += panel_text(figure, figure.panels[i], layout, layout.panels[i], styles);
  body += legend_text(figure, layout, styles);

  std::string text = comment(figure.caption);
  text += comment(fmt::format("Draws {0}.pdf, .svg and .png from {0}.csv: gnuplot {0}.gp", figure.name));
  text += comment(fmt::format("or some of them: gnuplot -e \"formats='pdf'\" {}.gp", figure.name));
  text += fmt::format("\nif (!exists('formats')) formats = 'pdf svg png'\ndata = {}\nfont = 'sans-serif,{:g}'\n",
                      gnuplot_quoted(figure.name + ".csv"), kFontSizePt);
  text += "\nset encoding utf8\nset datafile separator comma columnheaders\nset datafile missing 'nan'\n";
  text += comment("the column at the rows of one curve, undefined elsewhere");
  text += fmt::format("only(curve, name) = strcol({}) eq curve ? column(name) : NaN\n\n", gnuplot_quoted(kCurveColumn));
  text += styles.text();
  text += fmt::format("set style line 100 lc rgb '{}' lw 0.7 pt 6 ps 0.85\n", kInk);
  text += fmt::format("\ndo for [format in formats] {{\n{}  set output {} . format\n  set multiplot\n",
                      terminals(layout), gnuplot_quoted(figure.name + "."));
  text += fmt::format("  set border 3 lw 0.6 lc rgb '{0}'; set tics out scale 0.4 tc rgb '{0}'\n", kInk);
  text += "  set xtics nomirror offset 0,0.3; set ytics nomirror offset 0.5,0\n";
  text += fmt::format("  set grid back lt 1 lw 0.4 lc rgb '{}'; unset key\n", kGridInk);
  text += body;
  return text + "  unset multiplot\n  unset output\n}\n";
}

void write_figure_source(const Figure& figure, const std::filesystem::path& folder) {
  std::ostringstream csv;
  write_csv(figure.data, csv);
  auto write = [&](const char* extension, const std::string& text) {
    const std::filesystem::path path = folder / (figure.name + extension);
    std::ofstream out(path, std::ios::binary);
    out << text;
    out.close();
    if (!out) throw std::system_error(errno, std::generic_category(), path.filename().string());
  };
  write(".csv", csv.str());
  write(".gp", gnuplot_script(figure));
}

GnuplotRun draw_figure(const Figure& figure, const std::filesystem::path& folder,
                       const std::vector<std::string>& formats, std::chrono::milliseconds time_limit) {
  const std::string command = fmt::format("formats = {}", gnuplot_quoted(fmt::format("{}", fmt::join(formats, " "))));
  GnuplotRun run = run_gnuplot(folder, figure.name + ".gp", command, time_limit);
  for (const std::string& format : formats) {
    const std::string picture = figure.name + "." + format;
    if (run.status == GnuplotRun::Status::done && !is_whole_picture(folder / picture, format))
      run = {GnuplotRun::Status::not_written, fmt::format("{} is missing or truncated; is the disk full?", picture)};
  }
  if (run.status == GnuplotRun::Status::done) return run;
  for (const std::string& format : formats) {
    std::error_code ignored;
    std::filesystem::remove(folder / (figure.name + "." + format), ignored);
  }
  return run;
}

}  // namespace attest
