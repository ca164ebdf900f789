// Writes the gnuplot script of a figure: terminals, styles, panels, legend.
#include <fmt/core.h>

#include <algorithm>

#include "plots/figure.h"
#include "plots/figure_layout.h"
#include "plots/panel_script.h"

namespace attest {
namespace {

/// A comment line of the script. A backslash at its end would join the next line to it.
Gnuplot comment(std::string text) {
  text = on_one_line(std::move(text));
  if (text.ends_with('\\')) text += ' ';
  return Gnuplot::fit("# " + text + "\n");
}

// The cairo and svg terminals use different units for points. These factors, measured on their output, give a font
// size, a line width and a marker the same size in print with all three.
Gnuplot terminals(const FigureLayout& layout, const PageStyle& page) {
  const double w = layout.width_in, h = layout.height_in;
  constexpr double kCssDotsPerInch = 96, kPointsPerInch = 72;
  const double css = kCssDotsPerInch / kPointsPerInch;
  const double png = kPngDotsPerInch / kPointsPerInch;
  Gnuplot text;
  text += "  if (format eq 'pdf') {\n";
  text += gnuplot("    set terminal pdfcairo size {:.3f}in,{:.3f}in font font fontscale 0.75 linewidth 2\n", w, h);
  text += "  }\n  if (format eq 'svg') {\n";
  text += gnuplot(
      "    set terminal svg size {:.0f},{:.0f} font font fontscale {:.4f} linewidth {:.4f} background 'white'\n",
      w * kCssDotsPerInch, h * kCssDotsPerInch, css, css);
  text += "  }\n  if (format eq 'png') {\n";
  text += gnuplot(
      "    set terminal pngcairo size {:.0f},{:.0f} font font fontscale {:.4f} linewidth {:.4f} pointscale {:.4f}\n",
      w * kPngDotsPerInch, h * kPngDotsPerInch, png / css, png, png);
  text += "  }\n  if (format eq 'tikz') {\n";
  text += gnuplot(
      "    set terminal tikz size {:.3f}in,{:.3f}in font '\\fontsize{{{:g}pt}}{{{:g}pt}}\\selectfont' linewidth 1.4\n",
      w, h, page.font_pt, page.font_pt * 1.2);
  return text + "  }\n";
}

/// An empty plot over the whole figure, with a line, a marker and a title for each entry.
Gnuplot legend_script(const FigureLayout& layout, StyleList& styles) {
  Gnuplot text = "\n  unset title; unset xlabel; unset border; unset tics; unset grid; unset colorbox\n";
  text += Gnuplot("  unset logscale; unset arrow; unset label; unset object; set xrange [0:1]; set yrange [0:1]\n") +
          margins({});
  for (std::size_t i = 0; i < layout.note.size(); ++i)
    text += gnuplot("  set label {} noenhanced at screen 0.5, screen {:.4f} center tc rgb {}\n",
                    script_text(layout.note[i]), layout.note_y[i], gnuplot_text(kMutedInk));
  for (const LegendEntry& entry : layout.legend) {
    const double end = entry.x + layout.legend_sample, middle = (entry.x + end) / 2;
    const auto style = entry.is_ring ? kRingStyle : styles.number_of(entry.style);
    if (entry.line && !entry.is_ring)
      text += gnuplot("  set arrow from screen {:.4f}, screen {:.4f} to screen {:.4f}, screen {:.4f} nohead ls {}\n",
                      entry.x, entry.y, end, entry.y, style);
    if (entry.marker || entry.is_ring)
      text += gnuplot("  set label '' at screen {:.4f}, screen {:.4f} point ls {}\n", middle, entry.y, style);
    text += gnuplot("  set label {} noenhanced at screen {:.4f}, screen {:.4f} left tc rgb {}\n",
                    script_text(entry.title), end + layout.legend_sample / 4, entry.y, gnuplot_text(kInk));
  }
  return text + "  plot NaN notitle\n";
}

Gnuplot palette() {
  std::vector<Gnuplot> stops;
  const std::vector<std::string>& colours = heat_colours();
  for (std::size_t i = 0; i < colours.size(); ++i) stops.push_back(gnuplot("{} {}", i, gnuplot_text(colours[i])));
  return gnuplot("set palette defined ({})\n", joined(stops, Gnuplot(", ")));
}

}  // namespace

Gnuplot gnuplot_script(const Figure& figure, const PageStyle& page) {
  const FigureLayout layout = layout_of(figure, page);
  StyleList styles(page.line_scale);
  Gnuplot body;
  for (std::size_t i = 0; i < figure.panels.size(); ++i) body += panel_script(figure, i, layout, styles);
  body += legend_script(layout, styles);
  const bool heat = std::ranges::any_of(figure.panels, [](const Panel& panel) { return panel.colour.has_value(); });

  Gnuplot text = comment(figure.caption);
  text += comment(fmt::format("Draws {0}.pdf, .svg and .png from {0}.csv: gnuplot {0}.gp", figure.name));
  text += comment(fmt::format("or some of them: gnuplot -e \"formats='pdf'\" {}.gp", figure.name));
  text += comment("'tikz' writes a picture for LaTeX; it needs gnuplot-lua-tikz.sty, which gnuplot makes:");
  text += comment("gnuplot -e \"set terminal tikz createstyle\"");
  text += gnuplot("\nif (!exists('formats')) formats = {}\ndata = {}\nfont = 'sans-serif,{:g}'\n",
                  gnuplot_text(format_words(kDefaultFormats)), gnuplot_text(figure.name + ".csv"), page.font_pt);
  text += "\nset encoding utf8\nset datafile separator comma columnheaders\nset datafile missing 'nan'\n";
  text += comment("the column at the rows of one curve, undefined elsewhere");
  text += gnuplot("only(curve, name) = strcol({}) eq curve ? column(name) : NaN\n", gnuplot_text(kCurveColumn));
  text += comment("values below the end of a logarithmic axis are drawn at it");
  text += "atleast(least, value) = value < least ? least : value\n";
  text += comment("LaTeX has characters with a meaning");
  text += "shown(plain, latex) = format eq 'tikz' ? latex : plain\n\n";
  text += styles.definitions() + (heat ? palette() : Gnuplot());
  text += gnuplot("\ndo for [format in formats] {{\n{}  set output {} . format\n  set multiplot\n",
                  terminals(layout, page), gnuplot_text(figure.name + "."));
  text += gnuplot("  set border 3 lw {1:g} lc rgb {0}; set tics out scale 0.4 tc rgb {0}\n", gnuplot_text(kInk),
                  0.6 * page.line_scale);
  text += "  set xtics nomirror offset 0,0.3; set ytics nomirror offset 0.5,0; set cbtics offset -0.7,0\n";
  text += gnuplot("  set grid back lt 1 lw {:g} lc rgb {}; unset key\n", 0.4 * page.line_scale, gnuplot_text(kGridInk));
  text += body;
  return text + "  unset multiplot\n  unset output\n}\n";
}

}  // namespace attest
