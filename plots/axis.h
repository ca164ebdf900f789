// Ranges and tics of a panel's axes, from its data.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plots/figure.h"
#include "plots/layout_lengths.h"

namespace attest {

struct Range {
  double low = 0;
  double high = 1;
};

struct Tic {
  double at = 0;  ///< shown value; 1 - quality on a deficit axis
  std::string label;

  bool operator==(const Tic&) const = default;
};

/// The width of a tic's label in digits: a sign before it is as wide as two.
std::size_t label_characters(const Tic& tic);

/// Whether equal factors are equal lengths: every scale but the linear one.
bool is_logarithmic(const Axis& axis);

enum class AxisOf : std::uint8_t { x, y, colour };

const Axis& axis_of(const Panel& panel, AxisOf which);

/// Rows of the table that belong to a curve and have finite x and y.
std::vector<std::size_t> drawn_rows(const Figure& figure, const Series& series);

/// The number that is drawn for a value, in the units of the axis.
double shown_value(const Axis& axis, double value);

/// The floor: shown values below it are drawn at it.
std::optional<double> axis_floor(const Figure& figure, const Panel& panel, AxisOf which);

/// The range of shown values: as given, else that of the data of all series, with a margin. The y axis also covers
/// bands, and both axes cover reference lines.
Range axis_range(const Figure& figure, const Panel& panel, AxisOf which);

/// The room of an axis for the labels of its tics.
struct TicSpace {
  double length_in = 1;
  double character_in = kTicCharacterWidth;  ///< along the axis; 0 if labels stand beside a vertical axis
  double line_in = kLineHeight;
};

/// Labelled tics that do not touch. An axis of whole numbers has the values of the data if these are few, else round
/// numbers.
std::vector<Tic> axis_tics(const Figure& figure, const Panel& panel, AxisOf which, const TicSpace& space);

}  // namespace attest
