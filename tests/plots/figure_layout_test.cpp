// The places of frames and legend.
#include "plots/figure_layout.h"

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>

#include "plots/utf8.h"
#include "tests/plots/example_figure.h"

namespace attest {
namespace {

using test::example_figure;

/// For any number of panels, frames lie inside the figure, do not overlap, and leave room for the legend and the note.
TEST(FigureLayout, FramesDoNotOverlap) {
  for (int columns : {1, 2, 3}) {
    for (int panels = 1; panels <= 5; ++panels) {
      const FigureLayout layout = layout_of(example_figure(panels, columns), {});
      ASSERT_EQ(layout.panels.size(), static_cast<std::size_t>(panels));
      EXPECT_DOUBLE_EQ(layout.width_in, PageStyle().width_in);
      for (std::size_t i = 0; i < layout.panels.size(); ++i) {
        const Place& a = layout.panels[i];
        EXPECT_TRUE(0 < a.left && a.left < a.right && a.right < 1) << columns << ' ' << panels;
        EXPECT_TRUE(layout.legend.front().y < a.bottom && a.bottom < a.top && a.top < 1) << columns << ' ' << panels;
        EXPECT_GT(layout.y_label_x[i], 0);
        for (std::size_t j = 0; j < i; ++j) {
          const Place& b = layout.panels[j];
          EXPECT_TRUE(a.right < b.left || b.right < a.left || a.top < b.bottom || b.top < a.bottom)
              << i << " over " << j;
        }
      }
      EXPECT_LT(layout.note_y.front(), layout.legend.back().y);
      EXPECT_GT(layout.note_y.back(), 0);
    }
  }
}

TEST(FigureLayout, LegendNamesEachCurveOnceAndRingsOnlyIfSomeAreDrawn) {
  Figure figure = example_figure(3, 1);
  FigureLayout layout = layout_of(figure, {});
  ASSERT_EQ(layout.legend.size(), 2u);
  EXPECT_EQ(layout.legend[0].title, "curve a");
  EXPECT_FALSE(layout.legend.back().is_ring);

  figure.panels[0].series[0].ring = "ring";  // of curve a: 0 everywhere
  EXPECT_FALSE(layout_of(figure, {}).legend.back().is_ring);
  figure.panels[0].series[1].ring = "ring";
  EXPECT_TRUE(layout_of(figure, {}).legend.back().is_ring);
}

TEST(FigureLayout, LongTitlesTakeALineEachAndAreCutToFit) {
  Figure figure = example_figure(1, 1);
  FigureLayout layout = layout_of(figure, {});
  EXPECT_EQ(layout.legend[0].y, layout.legend[1].y);
  figure.panels[0].series[0].title = std::string(200, 'x');
  layout = layout_of(figure, {});
  EXPECT_GT(layout.legend[0].y, layout.legend[1].y);
  EXPECT_LT(layout.legend[0].title.size(), 65u);
  EXPECT_TRUE(layout.legend[0].title.ends_with("\u2026"));
}

TEST(FigureLayout, LegendStaysWithinTheFigureAndItsEntriesApart) {
  for (std::size_t length : {1, 8, 20, 34, 50, 90}) {
    Figure figure = example_figure(1, 1);
    for (int i = 0; i < 12; ++i) {
      Series series = figure.panels[0].series[0];
      series.title = std::string(length - (i % 2 && length > 1 ? length / 2 : 0), static_cast<char>('a' + i));
      figure.panels[0].series.push_back(series);
    }
    const FigureLayout layout = layout_of(figure, {});
    const double character = 0.056 / layout.width_in;
    for (const LegendEntry& a : layout.legend) {
      EXPECT_GT(a.x, 0) << length;
      const double end = a.x + layout.legend_sample + character * static_cast<double>(a.title.size());
      EXPECT_LT(end, 1.01) << length;
      for (const LegendEntry& b : layout.legend)
        EXPECT_TRUE(a.y != b.y || a.x >= b.x || end < b.x) << a.title << " over " << b.title;
    }
  }
}

TEST(FigureLayout, LargerPagesHaveLargerPanels) {
  const FigureLayout paper = layout_of(example_figure(2, 2), {}),
                     slides = layout_of(example_figure(2, 2), page_style("slides"));
  EXPECT_EQ(slides.width_in, 8);
  EXPECT_GT(slides.height_in, 1.8 * paper.height_in);
  EXPECT_EQ(slides.text_scale, 2);
}

TEST(FigureLayout, GapsGrowWithTheText) {
  for (const char* name : {"paper", "slides"}) {
    Figure figure = example_figure(1, 1);
    figure.panels[0].show_x = figure.panels[0].show_y = false;
    const PageStyle page = page_style(name);
    const FigureLayout layout = layout_of(figure, page);
    const double gap = 0.09 * page.text_scale();
    EXPECT_NEAR(layout.panels[0].left * layout.width_in, gap, 1e-9) << name;
    EXPECT_NEAR((1 - layout.panels[0].right) * layout.width_in, gap, 1e-9) << name;
  }
}

TEST(FigureLayout, WideTicLabelsMoveTheFrame) {
  Figure figure = example_figure(1, 1);
  const double narrow = layout_of(figure, {}).panels[0].left;
  figure.panels[0].y.factor = 1e6;
  EXPECT_GT(layout_of(figure, {}).panels[0].left, narrow + 0.02);
}

/// Where the last label of a binary axis reaches beyond the frame, its place is that of its logarithm.
TEST(FigureLayout, ABinaryAxisIsLaidOutAsALogarithmicOne) {
  Figure figure = example_figure(1, 1);
  figure.data = Table({{.name = kCurveColumn, .kind = Column::Kind::text}, {.name = "x"}, {.name = "y"}});
  constexpr double kLow = 1024, kLast = 131072, kHigh = 132400;
  for (const double x : {kLow, kLast}) figure.data.add_row({"a", x, 1.0});
  figure.panels[0].series = {{.curve = "a", .title = "", .x = "x", .y = "y"}};
  figure.panels[0].x = {.label = "x", .scale = Scale::binary, .low = kLow, .high = kHigh};
  // The label "128K" is a hundredth of the axis below its end by the value, a fifth of that by the logarithm.
  const FigureLayout layout = layout_of(figure, {});
  const Place& frame = layout.panels[0];
  const double length = (frame.right - frame.left) * layout.width_in, beyond = (1 - frame.right) * layout.width_in;
  const double to_end = length * std::log(kHigh / kLast) / std::log(kHigh / kLow);
  EXPECT_GE(beyond, 0.055 * 4 / 2 - to_end - 1e-3);
}

/// The last label of a panel, "100", and the first of the next one, "0.1", stand at the ends of their frames.
TEST(FigureLayout, TicLabelsOfNeighboursStayApart) {
  for (const Scale first : {Scale::logarithmic, Scale::deficit}) {
    Figure figure = example_figure(2, 2);
    figure.data = Table({{.name = kCurveColumn, .kind = Column::Kind::text}, {.name = "x"}, {.name = "y"}});
    for (const double x : {0.1, 1.0}) figure.data.add_row({"a", x, 1.0});
    for (Panel& panel : figure.panels) {
      panel.series = {{.curve = "a", .title = "", .x = "x", .y = "y"}};
      panel.x = {.label = "x", .scale = Scale::logarithmic, .low = 0.1, .high = 100};
    }
    figure.panels[0].x.scale = first;
    if (first == Scale::deficit) figure.panels[0].x = {.label = "x", .scale = first, .low = 0.001, .high = 0.1};
    figure.panels[1].show_y = false;
    const FigureLayout layout = layout_of(figure, {});
    const double gap = (layout.panels[1].left - layout.panels[0].right) * layout.width_in;
    const double last = first == Scale::deficit ? 5 : 3;  // characters of "0.999" and of "100"
    EXPECT_GE(gap, 0.055 * (last + 3) / 2 + 0.02);
  }
}

TEST(FigureLayout, AHeatMapLeavesRoomForItsColours) {
  Figure figure = example_figure(1, 1);
  const double without = layout_of(figure, {}).panels[0].right;
  figure.panels[0].series = {{.curve = "a", .title = {}, .x = "x", .y = "y", .mark = Mark::cells, .value = "y"}};
  figure.panels[0].colour = Axis{.label = "v"};
  EXPECT_LT(layout_of(figure, {}).panels[0].right, without - 0.05);
}

TEST(FigureLayout, UnknownColumnsAreDefects) {
  Figure figure = example_figure(1, 1);
  figure.panels[0].series[0].y = "no_such_column";
  EXPECT_THROW(layout_of(figure, {}), std::logic_error);
}

/// Titles and labels take as many lines as keep them on the page and apart from the next panel's.
TEST(FigureLayout, TitlesStayOnThePageAndApart) {
  const double one_line = layout_of(example_figure(2, 2), {}).height_in;
  for (const std::string& long_one :
       {std::string("values as fp8_e4m3, unit scale, of every layer"), std::string(60, 'x')})
    for (const std::size_t which : {0, 1}) {
      Figure figure = example_figure(2, 2);
      figure.panels[which].title = figure.panels[which].x.label = long_one;
      figure.panels[1 - which].title = figure.panels[1 - which].x.label = "a title";
      const FigureLayout layout = layout_of(figure, {});
      EXPECT_GT(layout.height_in, one_line);
      const double character = 0.0535 / layout.width_in;
      for (const std::vector<PanelText>* texts : {&layout.titles, &layout.x_labels}) {
        std::string all;
        for (const std::string& line : (*texts)[which].lines) {
          all += (all.empty() || long_one.find(' ') == std::string::npos ? "" : " ") + line;
          const double half = character * static_cast<double>(line.size()) / 2;
          const double centre = (layout.panels[which].left + layout.panels[which].right) / 2,
                       other = (layout.panels[1 - which].left + layout.panels[1 - which].right) / 2;
          EXPECT_TRUE(centre - half >= -1e-9 && centre + half <= 1 + 1e-9) << line;
          EXPECT_LT(half + character * 7 / 2, std::abs(other - centre)) << line;
        }
        EXPECT_EQ(all, long_one) << "nothing is cut";
        EXPECT_GT((*texts)[which].lines.size(), 1u);
      }
      const PanelText& title = layout.titles[which];
      EXPECT_LT(title.y, 1);
      EXPECT_GT(title.y - layout.line * static_cast<double>(title.lines.size() - 1), layout.panels[which].top);
    }
  EXPECT_EQ(layout_of(example_figure(2, 2), {}).titles[0].lines.size(), 1u);
}

/// A note of any length is whole: it takes as many lines as it needs, above the end of the page.
TEST(FigureLayout, ALongNoteTakesSeveralLines) {
  Figure figure = example_figure(1, 1);
  const double one_line = layout_of(figure, {}).height_in;
  for (const std::string& word : {std::string("word "), std::string(200, 'x') + " ", std::string("\u03b4\u2265 ")}) {
    figure.note.clear();
    for (int i = 0; i < 60; ++i) figure.note += word;
    figure.note.pop_back();
    const FigureLayout layout = layout_of(figure, {});
    ASSERT_GT(layout.note.size(), 1u);
    std::string whole;
    for (std::size_t i = 0; i < layout.note.size(); ++i) {
      EXPECT_LE(static_cast<double>(characters(layout.note[i])) * 0.056, layout.width_in);
      EXPECT_GT(layout.note_y[i], 0);
      if (i > 0) {
        EXPECT_LT(layout.note_y[i], layout.note_y[i - 1]);
      }
      whole += layout.note[i];
    }
    std::erase(whole, ' ');
    std::string expected = figure.note;
    std::erase(expected, ' ');
    EXPECT_EQ(whole, expected);
    EXPECT_GT(layout.height_in, one_line);
  }
}

}  // namespace
}  // namespace attest
