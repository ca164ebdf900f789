// Line styles are distinct and visible.
#include "plots/style.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>
#include <tuple>

namespace attest {
namespace {

constexpr std::size_t kManyCurves = 28;

/// WCAG 2 relative luminance of "#rrggbb".
double luminance(const std::string& colour) {
  auto channel = [&](int at) {
    const double c = std::stoi(colour.substr(at, 2), nullptr, 16) / 255.0;
    return c <= 0.03928 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4);
  };
  return 0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5);
}

TEST(Style, ManyCurvesAreAllDistinct) {
  std::set<std::tuple<std::string, std::string, int>> seen;
  for (std::size_t i = 0; i < kManyCurves; ++i) {
    const LineStyle style = line_style(i);
    EXPECT_TRUE(seen.insert({style.colour, style.dash.text(), style.point_type}).second) << "style " << i << " repeats";
  }
}

TEST(Style, AnyTwoDifferInGrey) {
  for (std::size_t i = 0; i < kManyCurves; ++i)
    for (std::size_t j = 0; j < i; ++j)
      EXPECT_FALSE(line_style(i).point_type == line_style(j).point_type &&
                   line_style(i).dash.text() == line_style(j).dash.text())
          << i << " and " << j << " look alike";
}

TEST(Style, SinglePointsDifferInColourOrMarker) {
  for (const auto style : {line_style, oracle_style}) {
    std::set<std::pair<std::string, int>> seen;
    for (std::size_t i = 0; i < kManyCurves; ++i)
      EXPECT_TRUE(seen.insert({style(i).colour, style(i).point_type}).second) << "style " << i << " repeats";
  }
}

TEST(Style, TheOraclesOfOneRoundOfColoursDifferInGrey) {
  for (std::size_t i = 0; i < 7; ++i)
    for (std::size_t j = 0; j < i; ++j) EXPECT_NE(oracle_style(i).point_type, oracle_style(j).point_type);
}

TEST(Style, EveryColourStandsOutOnWhite) {
  for (std::size_t i = 0; i < kManyCurves; ++i)
    EXPECT_GT((1 + 0.05) / (luminance(line_style(i).colour) + 0.05), 2.0) << line_style(i).colour;
}

TEST(Style, OraclesLookLikeNoRealSelector) {
  for (std::size_t i = 0; i < kManyCurves; ++i)
    for (std::size_t j = 0; j < kManyCurves; ++j) {
      EXPECT_NE(oracle_style(i).point_type, line_style(j).point_type);
      EXPECT_NE(oracle_style(i).dash.text(), line_style(j).dash.text());
    }
}

TEST(Style, HeatColoursGrowBrighter) {
  for (std::size_t i = 0; i + 1 < heat_colours().size(); ++i)
    EXPECT_LT(luminance(heat_colours()[i]), luminance(heat_colours()[i + 1])) << i;
}

TEST(Style, NoTextIsSmallerThanSevenPointsInAColumn) {
  EXPECT_GE(page_style("paper").font_pt, 7);
  EXPECT_LE(page_style("paper").width_in, 3.35);
  EXPECT_GE(page_style("slides").font_pt, 14);
  EXPECT_THROW(page_style("poster"), std::logic_error);
}

}  // namespace
}  // namespace attest
