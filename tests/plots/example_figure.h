// The figure that tests of axes and layout share.
#pragma once

#include <limits>

#include "plots/figure.h"

namespace attest::test {

/// Two curves over x = 1..4, the second partly undefined, in each of the panels.
inline Figure example_figure(int panels, int columns) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  Table table({{.name = kCurveColumn, .kind = Column::Kind::text},
               {.name = "x"},
               {.name = "y"},
               {.name = "low"},
               {.name = "ring"}});
  for (int x = 1; x <= 4; ++x) table.add_row({"a", x * 1.0, x * 10.0, x * 10.0 - 8, 0.0});
  for (int x = 1; x <= 4; ++x) table.add_row({"b", x * 1.0, x < 3 ? kNaN : 100.0 * x, kNaN, 1.0});
  Figure figure{
      .name = "f", .caption = "c", .note = "n", .ring_title = "ring", .data = table, .columns = columns, .panels = {}};
  for (int i = 0; i < panels; ++i)
    figure.panels.push_back({.title = "t",
                             .x = {.label = "x"},
                             .y = {.label = "y"},
                             .series = {{.curve = "a", .title = "curve a", .x = "x", .y = "y", .bands = {{"low", "y"}}},
                                        {.curve = "b", .title = "curve b", .x = "x", .y = "y"}}});
  return figure;
}

}  // namespace attest::test
