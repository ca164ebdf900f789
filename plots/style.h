// The appearance of all figures: sizes in print, colours, markers, dashes.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "plots/code.h"

namespace attest {

inline constexpr int kPngDotsPerInch = 300;

/// Sizes in print. No text is smaller than the font.
struct PageStyle {
  double width_in = 3.3;  ///< a column of a two-column paper
  double font_pt = 7;
  double line_scale = 1;  ///< of line widths and markers

  /// Lengths that go with the text are given for 7 pt and multiplied by this.
  double text_scale() const { return font_pt / 7; }
};

/// "paper": the default, one column of a two-column paper. "slides": 8 in wide, 14 pt.
PageStyle page_style(const std::string& name);
inline const std::vector<std::string> kPageStyles = {"paper", "slides"};

/// A line and its marker.
struct LineStyle {
  std::string colour;     ///< "#rrggbb"
  Gnuplot dash;           ///< its dash type: "solid" or "(6,3)"
  int point_type = 0;     ///< gnuplot point type
  double line_width = 1;  ///< points
  double point_size = 0.4;
  double opacity = 1;
};

/// The i-th style: the palette of Okabe and Ito, safe for colour-blind readers (without yellow, too light for a thin
/// line on white), each colour with a filled marker, black with a star. The next rounds of colours have dashed lines:
/// any two of 28 styles differ in marker or dashes, so that they can be told apart in grey.
LineStyle line_style(std::size_t index);

/// The i-th style for an oracle, a method that cannot be run for real: thin dotted line, hollow marker (black: a plus).
LineStyle oracle_style(std::size_t index);

/// Colours from the lowest to the highest value of a heat map: viridis, which is even in brightness, so that
/// colour-blind readers and grey prints keep the order. Evenly spaced "#rrggbb".
const std::vector<std::string>& heat_colours();

/// Text, frames and reference lines.
inline constexpr const char* kInk = "#222222";
inline constexpr const char* kMutedInk = "#777777";
inline constexpr const char* kGridInk = "#dddddd";
/// Shaded parts of an axis: paler than the grid, which stays visible on it.
inline constexpr const char* kShade = "#eef3e6";

}  // namespace attest
