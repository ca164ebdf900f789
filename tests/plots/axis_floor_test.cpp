// Labels of an axis whose smallest values are drawn at its floor.
#include <gtest/gtest.h>

#include <cmath>

#include "plots/axis.h"
#include "plots/figure_layout.h"

namespace attest {
namespace {

Figure values_of(std::vector<double> values, Axis axis) {
  Table table({{.name = kCurveColumn, .kind = Column::Kind::text}, {.name = "x"}, {.name = "y"}});
  for (double value : values) table.add_row({std::string("c"), value, 1.0});
  Figure figure{.name = "f", .data = table};
  figure.panels = {{.title = {}, .x = axis, .y = {}, .series = {{.curve = "c", .title = {}, .x = "x", .y = "y"}}}};
  return figure;
}

TEST(AxisFloor, LabelOfTheFloorDoesNotTouchItsNeighbour) {
  const Figure figure = values_of({1e-4, 3e-3, 5}, {.label = {}, .scale = Scale::logarithmic, .floor = 1e-3});
  int marked = 0;
  for (double length = 1; length < 4; length += 0.05) {
    const TicSpace space{.length_in = length};
    const std::vector<Tic> tics = axis_tics(figure, figure.panels[0], AxisOf::x, space);
    const Range range = axis_range(figure, figure.panels[0], AxisOf::x);
    ASSERT_GE(tics.size(), 2u);
    marked += tics[0].label == "≤0.001" ? 1 : 0;
    const auto place = [&](double at) { return length * std::log(at / range.low) / std::log(range.high / range.low); };
    const double characters_between = 0.5 * static_cast<double>(characters(tics[0].label) + characters(tics[1].label));
    EXPECT_GE(place(tics[1].at) - place(tics[0].at), space.character_in * (characters_between + 1)) << length;
  }
  EXPECT_GT(marked, 0);
}

TEST(AxisFloor, SignOfTheFloorHasRoomBesideAVerticalAxis) {
  Figure figure = values_of({1, 2}, {});
  figure.panel_height_in = 2;
  const auto frame_of = [&](double floor) {
    figure.panels[0].y = {.label = "y", .scale = Scale::logarithmic, .low = 1e-3, .high = 5, .floor = floor};
    return layout_of(figure, {});
  };
  const FigureLayout with = frame_of(1e-3), without = frame_of(1e-9);
  constexpr double kSignWidth = 0.08;  // inches, of 7 pt
  EXPECT_GE((with.panels[0].left - without.panels[0].left) * with.width_in, kSignWidth);
}

}  // namespace
}  // namespace attest
