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

/// Number of the style of rings.
inline constexpr std::size_t kRingStyle = 100;

/// The distinct styles of a figure; their numbers in the script are 1, 2, 3, ... without kRingStyle.
class StyleList {
 public:
  explicit StyleList(double line_scale) : line_scale_(line_scale) {}
  std::size_t number_of(const LineStyle& style);
  Gnuplot definitions() const;

 private:
  static std::size_t number_at(std::size_t index);

  double line_scale_;
  std::vector<Gnuplot> definitions_;
};

Gnuplot margins(const Place& place);

/// Draws panel number `index` at its place.
Gnuplot panel_script(const Figure& figure, std::size_t index, const FigureLayout& layout, StyleList& styles);

}  // namespace attest
