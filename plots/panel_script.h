// The part of a gnuplot script that draws one panel.
#pragma once

#include <string>
#include <vector>

#include "plots/figure.h"
#include "plots/figure_layout.h"

namespace attest {

/// A text of the figure in the script. LaTeX gives characters a meaning that the other formats print; where that
/// matters, the script chooses by format.
Gnuplot script_text(const std::string& text);

/// The distinct styles of a figure; a style's number in the script is its index + 1.
class StyleList {
 public:
  explicit StyleList(double line_scale) : line_scale_(line_scale) {}
  std::size_t number_of(const LineStyle& style);
  Gnuplot definitions() const;

 private:
  double line_scale_;
  std::vector<Gnuplot> definitions_;
};

/// Number of the style of rings.
inline constexpr int kRingStyle = 100;

Gnuplot margins(const Place& place);

/// Draws panel number `index` at its place.
Gnuplot panel_script(const Figure& figure, std::size_t index, const FigureLayout& layout, StyleList& styles);

}  // namespace attest
