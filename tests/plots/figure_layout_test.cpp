// Axis ranges, tics, and the places of frames and legend.
#include "plots/figure_layout.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

namespace attest {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// Two curves over x = 1..4, the second partly undefined.
Figure example(int panels, int columns) {
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

TEST(FigureLayout, RowsAreThoseOfTheCurveWithFiniteValues) {
  const Figure figure = example(1, 1);
  EXPECT_EQ(drawn_rows(figure, figure.panels[0].series[0]), (std::vector<std::size_t>{0, 1, 2, 3}));
  EXPECT_EQ(drawn_rows(figure, figure.panels[0].series[1]), (std::vector<std::size_t>{6, 7}));
}

TEST(FigureLayout, RangesHoldAllThatIsDrawnAndNoMore) {
  Figure figure = example(1, 1);
  Range y = axis_range(figure, figure.panels[0], true);
  EXPECT_LT(y.low, 2);  // the band of "a"
  EXPECT_GT(y.low, -40);
  EXPECT_GT(y.high, 400);
  EXPECT_LT(y.high, 450);

  figure.panels[0].y.factor = 100;
  figure.panels[0].references = {{-5000, {}}};
  y = axis_range(figure, figure.panels[0], true);
  EXPECT_LT(y.low, -5000);
  EXPECT_GT(y.high, 40000);

  figure.panels[0].y.high = 7;
  EXPECT_EQ(axis_range(figure, figure.panels[0], true).high, 7);
}

TEST(FigureLayout, LogarithmicRangesIgnoreZeroAndBelow) {
  Table table({{.name = kCurveColumn, .kind = Column::Kind::text}, {.name = "x"}, {.name = "y"}});
  for (double y : {0.0, -3.0, 0.02, 5.0}) table.add_row({"a", 1.0, y});
  Figure figure = example(1, 1);
  figure.data = table;
  figure.panels[0].y.logarithmic = true;
  figure.panels[0].series = {{.curve = "a", .title = "", .x = "x", .y = "y"}};
  const Range y = axis_range(figure, figure.panels[0], true);
  EXPECT_GT(y.low, 0.01);
  EXPECT_LT(y.low, 0.02);
  EXPECT_GT(y.high, 5);
}

TEST(FigureLayout, BoundsBeyondTheDataStillGiveARange) {
  Figure figure = example(1, 1);
  for (bool logarithmic : {false, true}) {
    figure.panels[0].y = {.label = "y", .logarithmic = logarithmic, .low = 1e4};
    const Range range = axis_range(figure, figure.panels[0], true);
    EXPECT_EQ(range.low, 1e4);
    EXPECT_GT(range.high, range.low);
  }
}

TEST(FigureLayout, NothingToShowStillGivesARange) {
  Figure figure = example(1, 1);
  figure.panels[0].series.clear();
  for (bool vertical : {false, true}) {
    const Range range = axis_range(figure, figure.panels[0], vertical);
    EXPECT_LT(range.low, range.high);
  }
}

TEST(FigureLayout, AConstantStillHasHeight) {
  Figure figure = example(1, 1);
  figure.panels[0].series.erase(figure.panels[0].series.begin());
  Table table({{.name = kCurveColumn, .kind = Column::Kind::text}, {.name = "x"}, {.name = "y"}, {.name = "ring"}});
  table.add_row({"b", 0.0, 0.0, 0.0});
  figure.data = table;
  const Range range = axis_range(figure, figure.panels[0], true);
  EXPECT_LT(range.low, 0);
  EXPECT_GT(range.high, 0);
}

/// A panel whose x axis has whole numbers: `layers`.
Figure by_layer(const std::vector<int>& layers) {
  Figure figure = example(1, 1);
  figure.data = Table({{.name = kCurveColumn, .kind = Column::Kind::text}, {.name = "x"}, {.name = "y"}});
  for (int layer : layers) figure.data.add_row({"a", layer * 1.0, 1.0});
  figure.panels[0].x.whole_numbers = true;
  figure.panels[0].series = {{.curve = "a", .title = "", .x = "x", .y = "y"}};
  return figure;
}

TEST(FigureLayout, AFewLayersAreNamedEach) {
  const Figure figure = by_layer({1, 3, 7, 30});
  EXPECT_EQ(tic_values(figure, figure.panels[0], false), (std::vector<double>{1, 3, 7, 30}));
}

TEST(FigureLayout, ManyLayersHaveRoundTics) {
  std::vector<int> layers(32);
  std::iota(layers.begin(), layers.end(), 0);
  Figure figure = by_layer(layers);
  EXPECT_EQ(tic_values(figure, figure.panels[0], false), (std::vector<double>{0, 8, 16, 24}));
  layers.resize(126);
  std::iota(layers.begin(), layers.end(), 0);
  figure = by_layer(layers);
  EXPECT_EQ(tic_values(figure, figure.panels[0], false), (std::vector<double>{0, 40, 80, 120}));
}

TEST(FigureLayout, LogarithmicTicsThinOutWithTheDecades) {
  Figure figure = example(1, 1);
  Axis& y = figure.panels[0].y;
  y.logarithmic = true;
  const auto tics = [&](double low, double high) {
    y.low = low;
    y.high = high;
    return tic_values(figure, figure.panels[0], true).value();
  };
  EXPECT_EQ(tics(0.9, 8), (std::vector<double>{1, 2, 3, 5, 7}));
  EXPECT_EQ(tics(4, 210), (std::vector<double>{5, 10, 20, 50, 100, 200}));
  EXPECT_EQ(tics(0.5, 2000), (std::vector<double>{1, 10, 100, 1000}));
}

TEST(FigureLayout, LinearTicsAreLeftToGnuplot) {
  const Figure figure = example(1, 1);
  EXPECT_EQ(tic_values(figure, figure.panels[0], true), std::nullopt);
}

/// For any number of panels, frames lie inside the figure, do not overlap, and leave room for the legend and the note.
TEST(FigureLayout, FramesDoNotOverlap) {
  for (int columns : {1, 2, 3}) {
    for (int panels = 1; panels <= 5; ++panels) {
      const FigureLayout layout = layout_of(example(panels, columns));
      ASSERT_EQ(layout.panels.size(), static_cast<std::size_t>(panels));
      EXPECT_DOUBLE_EQ(layout.width_in, kFigureWidthIn);
      for (std::size_t i = 0; i < layout.panels.size(); ++i) {
        const Place& a = layout.panels[i];
        EXPECT_TRUE(0 < a.left && a.left < a.right && a.right < 1) << columns << ' ' << panels;
        EXPECT_TRUE(layout.legend_place.top < a.bottom && a.bottom < a.top && a.top < 1) << columns << ' ' << panels;
        EXPECT_GT(layout.y_label_x(a), 0);
        for (std::size_t j = 0; j < i; ++j) {
          const Place& b = layout.panels[j];
          EXPECT_TRUE(a.right < b.left || b.right < a.left || a.top < b.bottom || b.top < a.bottom)
              << i << " over " << j;
        }
      }
      EXPECT_LT(layout.note_y, layout.legend_place.bottom);
      EXPECT_GT(layout.note_y, 0);
    }
  }
}

TEST(FigureLayout, LegendNamesEachCurveOnceAndRingsOnlyIfSomeAreDrawn) {
  Figure figure = example(3, 1);
  FigureLayout layout = layout_of(figure);
  ASSERT_EQ(layout.legend.size(), 2u);
  EXPECT_EQ(layout.legend[0].title, "curve a");
  EXPECT_FALSE(layout.has_rings);

  figure.panels[0].series[0].ring = "ring";  // of curve a: 0 everywhere
  EXPECT_FALSE(layout_of(figure).has_rings);
  figure.panels[0].series[1].ring = "ring";
  EXPECT_TRUE(layout_of(figure).has_rings);
}

TEST(FigureLayout, LongTitlesTakeALineEachAndAreCutToFit) {
  Figure figure = example(1, 1);
  EXPECT_EQ(layout_of(figure).legend_rows, 1);
  figure.panels[0].series[0].title = std::string(200, 'x');
  const FigureLayout layout = layout_of(figure);
  EXPECT_EQ(layout.legend_rows, 2);
  EXPECT_LT(layout.legend[0].title.size(), 60u);
  EXPECT_TRUE(layout.legend[0].title.ends_with("\u2026"));
}

TEST(FigureLayout, UnknownColumnsAreDefects) {
  Figure figure = example(1, 1);
  figure.panels[0].series[0].y = "no_such_column";
  EXPECT_THROW(layout_of(figure), std::logic_error);
}

}  // namespace
}  // namespace attest
