// How every figure looks: sizes at print, colours, markers, dashes.
#pragma once

#include <cstddef>
#include <string>

namespace attest {

/// A figure is as wide as one column of a two-column paper; no text is smaller than the font size at that width.
inline constexpr double kFigureWidthIn = 3.3;
inline constexpr double kFontSizePt = 7;
inline constexpr int kPngDotsPerInch = 300;

/// A line and its marker, told apart by colour, by marker shape and by dashes, so that two suffice without the third.
struct LineStyle {
  std::string colour;     ///< "#rrggbb"
  std::string dash;       ///< gnuplot dash type: "solid" or "(6,3)"
  int point_type = 0;     ///< gnuplot point type
  double line_width = 1;  ///< points
  double point_size = 0.4;
};

/// The i-th style: Okabe and Ito's colour-blind-safe palette (without yellow, too light for a thin line on white) with
/// a filled marker each; a second round of colours has dashed lines, so that 28 styles are distinct.
LineStyle line_style(std::size_t index);

/// The i-th style for what could not be run for real (an oracle): hollow marker, thin dotted line.
LineStyle oracle_style(std::size_t index);

/// Text, frames and reference lines.
inline constexpr const char* kInk = "#222222";
inline constexpr const char* kMutedInk = "#777777";
inline constexpr const char* kGridInk = "#dddddd";

}  // namespace attest
