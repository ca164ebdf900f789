// Parts of a panel's script that no other test covers.
#include "plots/panel_script.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "plots/axis.h"
#include "plots/figure_layout.h"
#include "tests/plots/example_figure.h"

namespace attest {
namespace {

using test::example_figure;
using ::testing::HasSubstr;
using ::testing::Not;

std::string script_of(const Figure& figure, std::size_t panel) {
  StyleList styles(1);
  return panel_script(figure, panel, layout_of(figure, {}), styles).text();
}

TEST(PanelScript, AShadedRangeIsBehindThePanelAndInNoOther) {
  Figure figure = example_figure(2, 1);
  figure.panels[0].shaded = {{2, 3.5}};
  EXPECT_THAT(script_of(figure, 0),
              HasSubstr("set object rectangle from first 2, graph 0 to first 3.5, graph 1 behind fc rgb"));
  const std::string next = script_of(figure, 1);
  EXPECT_THAT(next, HasSubstr("unset object\n"));
  EXPECT_THAT(next, Not(HasSubstr("set object rectangle")));
}

TEST(PanelScript, NoLineHasTheStyleOfRings) {
  StyleList styles(1);
  std::set<std::size_t> numbers{kRingStyle};
  for (int i = 0; i < 150; ++i)
    numbers.insert(styles.number_of({.colour = "#000000", .dash = "solid", .point_type = i}));
  EXPECT_EQ(numbers.size(), 151u);
  for (const std::size_t number : numbers)
    EXPECT_THAT(styles.definitions().text(), HasSubstr("set style line " + std::to_string(number) + " "));
}

TEST(PanelScript, AShadedRangeDoesNotWidenTheAxis) {
  Figure figure = example_figure(1, 1);
  const Range before = axis_range(figure, figure.panels[0], AxisOf::x);
  figure.panels[0].shaded = {{-100, 100}};
  EXPECT_EQ(axis_range(figure, figure.panels[0], AxisOf::x).high, before.high);
  EXPECT_EQ(axis_range(figure, figure.panels[0], AxisOf::x).low, before.low);
}

TEST(PanelScript, APlainLineHasNoMarkers) {
  Figure figure = example_figure(1, 1);
  figure.panels[0].series[1].mark = Mark::plain;
  const std::string script = script_of(figure, 0);
  EXPECT_THAT(script, HasSubstr("with lines ls"));
  EXPECT_THAT(script, HasSubstr("with linespoints ls"));
  const FigureLayout layout = layout_of(figure, {});
  ASSERT_EQ(layout.legend.size(), 2u);
  EXPECT_TRUE(layout.legend[0].line && layout.legend[0].marker);
  EXPECT_TRUE(layout.legend[1].line && !layout.legend[1].marker);
}

TEST(PanelScript, APlainLineHasItsBands) {
  Figure figure = example_figure(1, 1);
  Series& series = figure.panels[0].series[0];
  series.mark = Mark::plain;
  EXPECT_THAT(script_of(figure, 0), HasSubstr("with filledcurves"));
  series.bands.clear();
  EXPECT_THAT(script_of(figure, 0), Not(HasSubstr("with filledcurves")));
}

using testing::HasSubstr;

/// Columns at x = 1, 2 and 5, which meet half way between.
Figure cell_map(bool edges) {
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
  const Figure figure = cell_map(true);
  const Range x = axis_range(figure, figure.panels[0], AxisOf::x), y = axis_range(figure, figure.panels[0], AxisOf::y);
  EXPECT_EQ(x.low, 5);
  EXPECT_EQ(x.high, 65);
  EXPECT_EQ(y.low, 2.5);
  EXPECT_EQ(y.high, 4.5);
  const Figure squares = cell_map(false);
  EXPECT_EQ(axis_range(squares, squares.panels[0], AxisOf::x).low, 9.5);
  EXPECT_EQ(axis_range(squares, squares.panels[0], AxisOf::x).high, 50.5);
}

TEST(HeatMap, CellsAreDrawnBetweenTheirEdges) {
  const std::string edges = script_of(cell_map(true), 0), squares = script_of(cell_map(false), 0);
  EXPECT_THAT(edges, HasSubstr(":(column('left')*10):(column('right')*10):(column('y') - 0.5):(column('y') + 0.5):"));
  EXPECT_THAT(squares, HasSubstr("*10 - 0.5):(only('a', 'x')*10 + 0.5):(column('y') - 0.5):(column('y') + 0.5):"));
}

}  // namespace
}  // namespace attest
