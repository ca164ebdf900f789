// Heat maps whose cells have edges of their own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plots/axis.h"
#include "plots/figure_layout.h"
#include "plots/panel_script.h"

namespace attest {
namespace {

using testing::HasSubstr;

/// Columns at x = 1, 2 and 5, which meet half way between.
Figure example(bool edges) {
  Table table({{.name = kCurveColumn, .kind = Column::Kind::text},
               {.name = "x"},
               {.name = "left"},
               {.name = "right"},
               {.name = "y"},
               {.name = "v"}});
  for (const double y : {3.0, 4.0}) {
    table.add_row({"a", 1.0, 0.5, 1.5, y, 0.1});
    table.add_row({"a", 2.0, 1.5, 3.5, y, 0.2});
    table.add_row({"a", 5.0, 3.5, 6.5, y, 0.3});
  }
  Series series{.curve = "a", .title = {}, .x = "x", .y = "y", .mark = Mark::cells, .value = "v"};
  if (edges) {
    series.x_low = "left";
    series.x_high = "right";
  }
  Figure figure{.name = "f", .data = table};
  figure.panels = {
      {.title = "t", .x = {.label = "x", .factor = 10}, .y = {.label = "y"}, .series = {series}, .colour = Axis{}}};
  return figure;
}

TEST(HeatMap, TheAxisReachesFromTheFirstEdgeToTheLast) {
  const Figure figure = example(true);
  const Range x = axis_range(figure, figure.panels[0], AxisOf::x), y = axis_range(figure, figure.panels[0], AxisOf::y);
  EXPECT_EQ(x.low, 5);
  EXPECT_EQ(x.high, 65);
  EXPECT_EQ(y.low, 2.5);
  EXPECT_EQ(y.high, 4.5);
  const Figure squares = example(false);
  EXPECT_EQ(axis_range(squares, squares.panels[0], AxisOf::x).low, 9.5);
  EXPECT_EQ(axis_range(squares, squares.panels[0], AxisOf::x).high, 50.5);
}

TEST(HeatMap, CellsAreDrawnBetweenTheirEdges) {
  const auto script = [](const Figure& figure) {
    StyleList styles(1);
    return panel_script(figure, 0, layout_of(figure, {}), styles).text();
  };
  const std::string edges = script(example(true)), squares = script(example(false));
  EXPECT_THAT(edges, HasSubstr(":(column('left')*10):(column('right')*10):(column('y') - 0.5):(column('y') + 0.5):"));
  EXPECT_THAT(squares, HasSubstr("*10 - 0.5):(only('a', 'x')*10 + 0.5):(column('y') - 0.5):(column('y') + 0.5):"));
}

}  // namespace
}  // namespace attest
