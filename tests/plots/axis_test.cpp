// Ranges and tics of axes.
#include "plots/axis.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "plots/figure_layout.h"
#include "plots/utf8.h"
#include "tests/plots/example_figure.h"

namespace attest {
namespace {

using test::example_figure;

TEST(Axis, RowsAreThoseOfTheCurveWithFiniteValues) {
  const Figure figure = example_figure(1, 1);
  EXPECT_EQ(drawn_rows(figure, figure.panels[0].series[0]), (std::vector<std::size_t>{0, 1, 2, 3}));
  EXPECT_EQ(drawn_rows(figure, figure.panels[0].series[1]), (std::vector<std::size_t>{6, 7}));
}

TEST(Axis, RangesHoldAllThatIsDrawnAndNoMore) {
  Figure figure = example_figure(1, 1);
  Range y = axis_range(figure, figure.panels[0], AxisOf::y);
  EXPECT_LT(y.low, 2);  // the band of "a"
  EXPECT_GT(y.low, -40);
  EXPECT_GT(y.high, 400);
  EXPECT_LT(y.high, 450);

  figure.panels[0].y.factor = 100;
  figure.panels[0].references = {{-5000}};
  y = axis_range(figure, figure.panels[0], AxisOf::y);
  EXPECT_LT(y.low, -5000);
  EXPECT_GT(y.high, 40000);

  figure.panels[0].y.high = 7;
  EXPECT_EQ(axis_range(figure, figure.panels[0], AxisOf::y).high, 7);
}

TEST(Axis, LogarithmicRangesIgnoreZeroAndBelow) {
  Table table({{.name = kCurveColumn, .kind = Column::Kind::text}, {.name = "x"}, {.name = "y"}});
  for (double y : {0.0, -3.0, 0.02, 5.0}) table.add_row({"a", 1.0, y});
  Figure figure = example_figure(1, 1);
  figure.data = table;
  figure.panels[0].y.scale = Scale::logarithmic;
  figure.panels[0].series = {{.curve = "a", .title = "", .x = "x", .y = "y"}};
  const Range y = axis_range(figure, figure.panels[0], AxisOf::y);
  EXPECT_GT(y.low, 0.01);
  EXPECT_LT(y.low, 0.02);
  EXPECT_GT(y.high, 5);
}

TEST(Axis, BoundsBeyondTheDataStillGiveARange) {
  Figure figure = example_figure(1, 1);
  for (Scale scale : {Scale::linear, Scale::logarithmic, Scale::binary, Scale::deficit}) {
    figure.panels[0].y = {.label = "y", .scale = scale, .low = 1e4};
    const Range range = axis_range(figure, figure.panels[0], AxisOf::y);
    EXPECT_EQ(range.low, 1e4);
    EXPECT_GT(range.high, range.low);
  }
}

TEST(Axis, NothingToShowStillGivesARange) {
  Figure figure = example_figure(1, 1);
  figure.panels[0].series.clear();
  for (AxisOf which : {AxisOf::x, AxisOf::y}) {
    const Range range = axis_range(figure, figure.panels[0], which);
    EXPECT_LT(range.low, range.high);
  }
}

TEST(Axis, AConstantStillHasHeight) {
  Figure figure = example_figure(1, 1);
  figure.panels[0].series.erase(figure.panels[0].series.begin());
  Table table({{.name = kCurveColumn, .kind = Column::Kind::text}, {.name = "x"}, {.name = "y"}, {.name = "ring"}});
  table.add_row({"b", 0.0, 0.0, 0.0});
  figure.data = table;
  const Range range = axis_range(figure, figure.panels[0], AxisOf::y);
  EXPECT_LT(range.low, 0);
  EXPECT_GT(range.high, 0);
}

/// A panel whose x axis has whole numbers: `layers`.
Figure by_layer(const std::vector<int>& layers) {
  Figure figure = example_figure(1, 1);
  figure.data = Table({{.name = kCurveColumn, .kind = Column::Kind::text}, {.name = "x"}, {.name = "y"}});
  for (int layer : layers) figure.data.add_row({"a", layer * 1.0, 1.0});
  figure.panels[0].x.whole_numbers = true;
  figure.panels[0].series = {{.curve = "a", .title = "", .x = "x", .y = "y"}};
  return figure;
}

/// Tics of an axis whose labels stand beside each other (x) over `length_in`.
std::vector<double> tics_of(const Figure& figure, AxisOf which = AxisOf::x, double length_in = 1.2) {
  std::vector<double> values;
  for (const Tic& tic : axis_tics(figure, figure.panels[0], which, {.length_in = length_in})) values.push_back(tic.at);
  return values;
}

std::vector<std::string> labels_of(const Figure& figure, AxisOf which, double length_in) {
  std::vector<std::string> labels;
  for (const Tic& tic : axis_tics(figure, figure.panels[0], which, {.length_in = length_in, .character_in = 0}))
    labels.push_back(tic.label);
  return labels;
}

TEST(Axis, AFewLayersAreNamedEach) {
  EXPECT_EQ(tics_of(by_layer({1, 3, 7, 30}), AxisOf::x, 3), (std::vector<double>{1, 3, 7, 30}));
}

TEST(Axis, NeighboursThatWouldTouchAreThinnedOut) {
  EXPECT_EQ(tics_of(by_layer({1000, 1001, 1002, 1003}), AxisOf::x, 0.7), (std::vector<double>{1000, 1002}));
}

TEST(Axis, OnlyWholeNumbersAreNamedEach) {
  Figure figure = by_layer({1, 3});
  figure.data.add_row({"a", 2.5, 1.0});
  EXPECT_EQ(tics_of(figure, AxisOf::x, 3), (std::vector<double>{1, 3}));
  Figure halves = by_layer({});
  for (const double x : {1.5, 4.5}) halves.data.add_row({"a", x, 1.0});
  EXPECT_EQ(tics_of(halves, AxisOf::x, 3), (std::vector<double>{1, 2, 3, 4, 5})) << "none is whole: round tics";
}

/// The sign before the label of the floor is as wide as two digits.
TEST(Axis, LabelsWithASignDoNotTouch) {
  EXPECT_EQ(label_characters({0.1, "0.1"}), 3u);
  EXPECT_EQ(label_characters({0.1, "\u22640.1"}), 5u);
  Figure figure = example_figure(1, 1);
  figure.data = Table({{.name = kCurveColumn, .kind = Column::Kind::text}, {.name = "x"}, {.name = "y"}});
  for (const double x : {0.001, 1.0}) figure.data.add_row({"a", x, 1.0});
  figure.panels[0].x = {.label = "x", .scale = Scale::logarithmic, .floor = 0.001};
  figure.panels[0].series = {{.curve = "a", .title = "", .x = "x", .y = "y"}};
  for (double length = 0.3; length < 3; length += 0.01) {
    const TicSpace space{.length_in = length};
    const std::vector<Tic> tics = axis_tics(figure, figure.panels[0], AxisOf::x, space);
    const Range range = axis_range(figure, figure.panels[0], AxisOf::x);
    for (std::size_t i = 0; i + 1 < tics.size(); ++i) {
      const double apart = std::log(tics[i + 1].at / tics[i].at) / std::log(range.high / range.low) * length;
      const auto both = static_cast<double>(label_characters(tics[i]) + label_characters(tics[i + 1]));
      EXPECT_GE(apart, space.character_in * (both / 2 + 1) - 1e-9) << length;
    }
  }
}

TEST(Axis, ManyLayersHaveRoundTics) {
  std::vector<int> layers(32);
  std::iota(layers.begin(), layers.end(), 0);
  EXPECT_EQ(tics_of(by_layer(layers)), (std::vector<double>{0, 5, 10, 15, 20, 25, 30}));
  layers.resize(126);
  std::iota(layers.begin(), layers.end(), 0);
  EXPECT_EQ(tics_of(by_layer(layers)), (std::vector<double>{0, 50, 100}));
}

/// A panel of one curve with these y.
Figure with_y(const std::vector<double>& values, Scale scale) {
  Figure figure = example_figure(1, 1);
  figure.data = Table({{.name = kCurveColumn, .kind = Column::Kind::text}, {.name = "x"}, {.name = "y"}});
  for (double y : values) figure.data.add_row({"a", 1.0, y});
  figure.panels[0].y.scale = scale;
  figure.panels[0].series = {{.curve = "a", .title = "", .x = "x", .y = "y"}};
  return figure;
}

TEST(Axis, BinaryTicsArePowersOfTwo) {
  const Figure lengths = with_y({4096, 262144}, Scale::binary);
  EXPECT_EQ(labels_of(lengths, AxisOf::y, 2),
            (std::vector<std::string>{"4K", "8K", "16K", "32K", "64K", "128K", "256K"}));
  EXPECT_EQ(labels_of(lengths, AxisOf::y, 0.6), (std::vector<std::string>{"4K", "16K", "64K", "256K"}));
  EXPECT_EQ(labels_of(with_y({512, 1048576}, Scale::binary), AxisOf::y, 0.6),
            (std::vector<std::string>{"512", "4K", "32K", "256K"}));
  EXPECT_EQ(labels_of(with_y({2, 8}, Scale::binary), AxisOf::y, 2), (std::vector<std::string>{"2", "4", "8"}));
  EXPECT_GE(tics_of(with_y({33000, 34000}, Scale::binary), AxisOf::y).size(), 2u) << "no power of two in between";
}

TEST(Axis, LogarithmicTicsThinOutWithTheDecades) {
  EXPECT_EQ(tics_of(with_y({0.9, 8}, Scale::logarithmic), AxisOf::y), (std::vector<double>{1, 2, 3, 5, 7}));
  EXPECT_EQ(tics_of(with_y({0.5, 2000}, Scale::logarithmic), AxisOf::y), (std::vector<double>{1, 10, 100, 1000}));
  // 50 and 100 would touch
  EXPECT_EQ(tics_of(with_y({1, 100}, Scale::logarithmic), AxisOf::y, 0.7), (std::vector<double>{1, 10, 100}));
  EXPECT_EQ(tics_of(with_y({1e-9, 1e9}, Scale::logarithmic), AxisOf::y, 0.8).size(), 3u);
}

TEST(Axis, AFractionOfADecadeStillHasSeveralTics) {
  const std::vector<double> tics = tics_of(with_y({61, 64}, Scale::logarithmic), AxisOf::y);
  EXPECT_GE(tics.size(), 2u);
  for (double at : tics) EXPECT_TRUE(50 < at && at < 80) << at;
}

TEST(Axis, DeficitsAreShownAsNinesWithTheBestAtTheEnd) {
  const Figure figure = with_y({0.5, 0.9, 0.99, 0.9999}, Scale::deficit);
  const Range range = axis_range(figure, figure.panels[0], AxisOf::y);
  EXPECT_LT(range.low, 1e-4);
  EXPECT_GT(range.high, 0.5);
  EXPECT_EQ(labels_of(figure, AxisOf::y, 1), (std::vector<std::string>{"0.9999", "0.999", "0.99", "0.9"}));
}

TEST(Axis, QualityOfOneIsDrawnAtAFloorThatIsNamed) {
  const Figure figure = with_y({0.95, 0.995, 1.0}, Scale::deficit);
  EXPECT_EQ(axis_floor(figure, figure.panels[0], AxisOf::y), 1e-3);
  EXPECT_EQ(labels_of(figure, AxisOf::y, 0.5).front(), "\u22650.999");
  const Figure close = with_y({0.95, 0.9988, 1.0}, Scale::deficit);  // 0.0012 and the floor must not coincide
  EXPECT_EQ(axis_floor(close, close.panels[0], AxisOf::y), 1e-4);
}

TEST(Axis, ValuesBelowAGivenFloorWidenTheRangeOnlyToIt) {
  Figure figure = with_y({0, 1e-9, 0.5}, Scale::logarithmic);
  EXPECT_EQ(axis_floor(figure, figure.panels[0], AxisOf::y), std::nullopt);
  figure.panels[0].y.floor = 1e-3;
  const Range range = axis_range(figure, figure.panels[0], AxisOf::y);
  EXPECT_GT(range.low, 5e-4);
  EXPECT_LT(range.low, 1e-3);
}

TEST(Axis, LinearTicsAreRoundAndHaveNoNegativeZero) {
  const Figure figure = with_y({-0.21, 0.43}, Scale::linear);
  EXPECT_EQ(labels_of(figure, AxisOf::y, 1),
            (std::vector<std::string>{"-0.2", "-0.1", "0", "0.1", "0.2", "0.3", "0.4"}));
}

TEST(Axis, CellsReachHalfAUnitBeyondTheirCentres) {
  Figure figure = with_y({0, 7}, Scale::linear);
  figure.panels[0].series[0].mark = Mark::cells;
  figure.panels[0].series[0].value = "y";
  figure.panels[0].colour = Axis{.label = "v"};
  const Range range = axis_range(figure, figure.panels[0], AxisOf::y);
  EXPECT_EQ(range.low, -0.5);
  EXPECT_EQ(range.high, 7.5);
  const Range colours = axis_range(figure, figure.panels[0], AxisOf::colour);
  EXPECT_EQ(colours.low, 0);
  EXPECT_EQ(colours.high, 7);
}

/// gnuplot refuses an axis whose ends are inf, or equal in the digits of a script.
TEST(Axis, EndsCanBeDrawnWhateverTheValues) {
  for (const Scale scale : {Scale::linear, Scale::logarithmic, Scale::binary, Scale::deficit})
    for (const double value : {0.0, 5e-324, 1e-310, 1e-30, 1.0, 1e15, 1e30, 1e300})
      for (const double other : {value, -value, 1.0, 1e300}) {
        Table table({{.name = kCurveColumn, .kind = Column::Kind::text}, {.name = "x"}, {.name = "y"}});
        table.add_row({"a", value, 1.0});
        table.add_row({"a", other, 1.0});
        Figure figure{.name = "f", .data = table};
        for (const bool whole_numbers : {false, true}) {
          figure.panels = {{.title = {},
                            .x = {.label = "x", .scale = scale, .whole_numbers = whole_numbers},
                            .y = {},
                            .series = {{.curve = "a", .title = {}, .x = "x", .y = "y"}}}};
          const Range range = axis_range(figure, figure.panels[0], AxisOf::x);
          EXPECT_NE(fmt::format("{:.6g}", range.low), fmt::format("{:.6g}", range.high)) << value << ' ' << other;
          EXPECT_TRUE(std::isfinite(range.low) && std::isfinite(range.high)) << value << ' ' << other;
          EXPECT_TRUE(scale == Scale::linear || range.low > 0) << value << ' ' << other;
          EXPECT_LE(axis_tics(figure, figure.panels[0], AxisOf::x, {.length_in = 2}).size(), 9u);
        }
      }
}

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

TEST(AxisFloor, IsNamedWhereNotEveryDecadeIs) {
  const Figure figure = values_of({1 - 1e-2, 1 - 3e-6, 1}, {.label = {}, .scale = Scale::deficit});
  const std::vector<Tic> tics = axis_tics(figure, figure.panels[0], AxisOf::x, {.length_in = 1.3});
  ASSERT_GE(tics.size(), 2u);
  EXPECT_GT(tics[1].at / tics[0].at, 50) << "the case is not trivial";
  EXPECT_EQ(tics[0].label, "≥0.999999");
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
