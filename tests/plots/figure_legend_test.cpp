// The legend: which series have an entry, and columns that fit the page.
#include "plots/figure_legend.h"

#include <gtest/gtest.h>

#include <string>

#include "plots/layout_lengths.h"
#include "plots/utf8.h"
#include "tests/plots/example_figure.h"

namespace attest {
namespace {

/// A layout of `characters` letters in width, with entries of five letters each.
FigureLayout layout_with(int entries, double characters) {
  FigureLayout layout;
  layout.width_in = characters * kCharacterWidth;
  layout.height_in = 2;
  for (int i = 0; i < entries; ++i) layout.legend.push_back({.title = "title", .style = {}});
  return layout;
}

constexpr double kEntry = 5 + kLegendSample / kCharacterWidth, kEdge = kGap / kCharacterWidth;  // in letters

TEST(FigureLegend, HasAsManyColumnsAsFit) {
  EXPECT_EQ(legend_grid(layout_with(4, 4 * kEntry + kEdge + 0.1)).rows, 1);
  const LegendGrid two = legend_grid(layout_with(4, 4 * kEntry + kEdge - 0.1));
  EXPECT_EQ(two.rows, 2);
  ASSERT_EQ(two.widths.size(), 2u) << "three columns of four entries have two rows, too, and are two";
  EXPECT_DOUBLE_EQ(two.widths[0], kEntry * kCharacterWidth);
  EXPECT_EQ(legend_grid(layout_with(3, 1)).rows, 3) << "one column, whatever its width";
  EXPECT_EQ(legend_grid(layout_with(0, 10)).rows, 0);
}

TEST(FigureLegend, EntriesFillColumnsFromTopToBottom) {
  FigureLayout layout = layout_with(3, 2 * kEntry + kEdge + 0.1);
  const LegendGrid grid = legend_grid(layout);
  ASSERT_EQ(grid.rows, 2);
  place_entries(layout, grid, 1);
  EXPECT_EQ(layout.legend[0].x, layout.legend[1].x);
  EXPECT_LT(layout.legend[0].x, layout.legend[2].x);
  EXPECT_GT(layout.legend[0].y, layout.legend[1].y);
  EXPECT_EQ(layout.legend[0].y, layout.legend[2].y);
  EXPECT_NEAR(layout.legend[0].y - layout.legend[1].y, kLegendRow / layout.height_in, 1e-12);
}

TEST(FigureLegend, NamesEachDrawnSeriesOnceAndCutsLongTitles) {
  Figure figure = test::example_figure(2, 1);
  for (Panel& panel : figure.panels) {
    panel.series[1].title = std::string(300, 'x');
    panel.series.push_back({.curve = "none", .title = "without rows", .x = "x", .y = "y"});
    panel.series.push_back({.curve = "a", .title = "", .x = "x", .y = "y"});
  }
  FigureLayout layout = layout_with(0, 60);
  add_entries(figure, layout);
  ASSERT_EQ(layout.legend.size(), 2u);
  EXPECT_EQ(layout.legend[0].title, "curve a");
  EXPECT_TRUE(layout.legend[1].title.ends_with("x\u2026"));
  EXPECT_LE(characters(layout.legend[1].title), 60u);
}

}  // namespace
}  // namespace attest
