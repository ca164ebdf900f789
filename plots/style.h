// The appearance of all figures: sizes in print, colours, markers, dashes.
#pragma once

#include <cstddef>
#include <string>

namespace attest {

/// A figure has the width of a column of a two-column paper. At that width no text is smaller than the font size.
inline constexpr double kFigureWidthIn = 3.3;
inline constexpr double kFontSizePt = 7;
inline constexpr int kPngDotsPerInch = 300;

/// A line and its marker. Lines differ in colour, marker and dashes so that any two of these tell them apart.
struct LineStyle {
  std::string colour;     ///< "#rrggbb"
  std::string dash;       ///< gnuplot dash type: "solid" or "(6,3)"
  int point_type = 0;     ///< gnuplot point type
  double line_width = 1;  ///< points
  double point_size = 0.4;
};

/// The i-th style: the palette of Okabe and Ito, safe for colour-blind readers (without yellow, too light for a thin
/// line on white), each colour with a filled marker. The next rounds of colours have dashed lines, so that 28 styles
/// are distinct.
LineStyle line_style(std::size_t index);

/// The i-th style for an oracle, a method that cannot be run for real: hollow marker, thin dotted line.
LineStyle oracle_style(std::size_t index);

/// Text, frames and reference lines.
inline constexpr const char* kInk = "#222222";
inline constexpr const char* kMutedInk = "#777777";
inline constexpr const char* kGridInk = "#dddddd";

}  // namespace attest
