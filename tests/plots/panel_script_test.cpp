// Parts of a panel's script that no other test covers.
#include "plots/panel_script.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace attest
