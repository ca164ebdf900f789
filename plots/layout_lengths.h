// Lengths of a figure in inches, for text of 7 pt; FigureLayout::text_scale says how much larger a page's text is.
// Widths of characters were measured on pictures.
#pragma once

namespace attest {

inline constexpr double kTitleHeight = 0.16;         // a panel's title and the space around it
inline constexpr double kXLabels = 0.33;             // what tic labels and axis label take below a frame
inline constexpr double kYLabel = 0.13;              // what the rotated axis label takes beside the tic labels
inline constexpr double kTicGap = 0.08;              // between a tic's label and the frame
inline constexpr double kGap = 0.09;                 // between whatever else would touch, and at the edge of the page
inline constexpr double kColourBar = 0.14;           // the bar beside a heat map, with its gap to the frame
inline constexpr double kLegendRow = 0.118;          // from one row of the legend to the next
inline constexpr double kNoteHeight = 0.15;          // a note of one line and the space around it
inline constexpr double kLineHeight = 0.11;          // from one line of text to the next
inline constexpr double kTicCharacterWidth = 0.055;  // of a digit, of which tic labels are made
inline constexpr double kCharacterWidth = 0.056;     // of letters, in legend and notes
inline constexpr double kLabelCharacterWidth = 0.0535;  // of titles and axis labels, whose letters may come closer
inline constexpr double kXLabelCentre = 0.24;           // from the frame to the middle of the axis label
inline constexpr double kLegendLine = 0.22;             // the sample line before a title of the legend
inline constexpr double kLegendSample = 0.36;           // that line and the spaces around it

}  // namespace attest
