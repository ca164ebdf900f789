// Scripts and pictures of figures.
#include "plots/figure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <sstream>

#include "tests/dumps/scratch_folder.h"

namespace attest {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// Labels have characters with a meaning in scripts, csv files and enhanced text. One curve has two points, another
/// only undefined ones.
Figure example() {
  const std::string hard = "it's_{a}; `b` %d 'q' ü";
  Table table({{.name = kCurveColumn, .kind = Column::Kind::text},
               {.name = "io"},
               {.name = "recall"},
               {.name = "low"},
               {.name = "high"},
               {.name = "lse"},
               {.name = "default"}});
  for (int i = 1; i <= 6; ++i)
    table.add_row({hard, 0.03 * i * i, 1 - 0.3 / i, 1 - 0.4 / i, i == 4 ? kNaN : 1 - 0.2 / i, i == 6 ? 0.0 : 5.0 / i,
                   i == 3 ? 1.0 : 0.0});
  table.add_row({"two points", 0.1, 0.7, 0.6, 0.8, 3.0, 0.0});
  table.add_row({"two points", 0.5, 0.8, 0.7, 0.9, 2.0, 0.0});
  table.add_row({"undefined", 0.1, kNaN, kNaN, kNaN, kNaN, 0.0});

  Figure figure{.name = "f",
                .caption = "first\nsecond",
                .note = "bands: it's",
                .ring_title = "default",
                .data = table,
                .columns = 2,
                .panels = {}};
  std::vector<Series> series;
  for (const std::string& curve : {hard, std::string("two points"), std::string("undefined")})
    series.push_back({.curve = curve,
                      .title = curve,
                      .x = "io",
                      .y = "recall",
                      .bands = {{"low", "high", 0.2}},
                      .style = line_style(series.size()),
                      .ring = "default"});
  figure.panels.push_back({.title = "(a)",
                           .x = {.label = "bytes (%)", .factor = 100, .scale = Scale::logarithmic},
                           .y = {.label = "recall", .scale = Scale::deficit},
                           .series = series,
                           .references = {{0.9, "target"}}});
  for (Series& s : series) {
    s.y = "lse";
    s.bands.clear();
  }
  figure.panels.push_back({.title = "(b)",
                           .x = {.label = "bytes (%)", .factor = 100},
                           .y = {.label = "LSE error", .scale = Scale::logarithmic},
                           .series = series});
  figure.panels.push_back({.title = "(c) nothing", .x = {}, .y = {}, .series = {series[2]}});
  return figure;
}

class FigureTest : public testing::Test {
 protected:
  std::string content(const std::string& name) const {
    EXPECT_TRUE(fs::exists(folder_ / name)) << name;
    return bytes_of_file(scratch_.file(name));
  }

  const ScratchFolder scratch_;
  const fs::path folder_ = scratch_.path();
};

TEST_F(FigureTest, ScriptReadsItsCsvByRelativePathAndHoldsItsCaption) {
  const std::string script = gnuplot_script(example()).text();
  EXPECT_THAT(script, HasSubstr("data = 'f.csv'"));
  EXPECT_THAT(script, Not(HasSubstr(folder_.string())));
  EXPECT_THAT(script, HasSubstr("# first second\n"));
  EXPECT_THAT(script, HasSubstr("fontscale 0.75"));
}

TEST_F(FigureTest, ACurveOfTwoPointsHasBarsAndALongerOneAnArea) {
  Figure figure = example();
  figure.panels[0].y.scale = Scale::linear;
  const std::string script = gnuplot_script(figure).text();
  EXPECT_THAT(
      script,
      HasSubstr(
          "only('two points', 'io')*100):(column('low')):(0):(column('high') - column('low')) with vectors nohead"));
  EXPECT_THAT(script, HasSubstr("only(\"it's_{a}; \\140b\\140 %d 'q' \u00fc\", "
                                "'io')*100):(column('low')):(column('high')) with filledcurves"));
  EXPECT_THAT(script, Not(HasSubstr("only('undefined'")));
}

TEST_F(FigureTest, ADeficitAxisDrawsOneMinusTheQualityWithTheBestOnTop) {
  const std::string script = gnuplot_script(example()).text();
  EXPECT_THAT(script, HasSubstr("(atleast(1e-07, 1 - column('recall'))) with linespoints"));
  EXPECT_THAT(script, testing::ContainsRegex("set logscale y; set yrange \\[1.0[0-9]*:0.0[0-9]*\\]"));
  EXPECT_THAT(script, HasSubstr("'0.9' 0.1"));
}

TEST_F(FigureTest, PointsAreNotJoinedAndCellsHaveTheColoursOfTheirValues) {
  Figure figure = example();
  figure.panels[0].series[0].mark = Mark::points;
  figure.panels[1].series = {
      {.curve = "two points", .title = {}, .x = "io", .y = "recall", .mark = Mark::cells, .value = "lse"}};
  figure.panels[1].colour = Axis{.label = "LSE error", .scale = Scale::logarithmic};
  const std::string script = gnuplot_script(figure).text();
  EXPECT_THAT(script, HasSubstr("(atleast(1e-07, 1 - column('recall'))) with points ls 1 notitle"));
  EXPECT_THAT(script, HasSubstr("(column('lse')) with boxxyerror fc palette"));
  EXPECT_THAT(script, HasSubstr("set logscale cb; set cbrange"));
  EXPECT_THAT(script, HasSubstr("set palette defined (0 '#440154'"));
}

TEST_F(FigureTest, ALineWithManyPointsHasFewerMarkers) {
  Figure figure = example();
  EXPECT_THAT(gnuplot_script(figure).text(), Not(HasSubstr(" pi ")));
  for (int i = 0; i < 80; ++i) figure.data.add_row({"many", 0.01 * i, 0.5, 0.4, 0.6, 1.0, 0.0});
  figure.panels[0].series = {{.curve = "many", .title = {}, .x = "io", .y = "recall"}};
  EXPECT_THAT(gnuplot_script(figure).text(), HasSubstr(" pi 4 "));
}

TEST_F(FigureTest, WritesTheDataThatTheScriptReads) {
  const Figure figure = example();
  write_figure_source(figure, {}, folder_);
  std::ostringstream csv;
  write_csv(figure.data, csv);
  EXPECT_EQ(content("f.csv"), csv.str());
  EXPECT_EQ(content("f.gp"), gnuplot_script(figure, {}).text());
  EXPECT_THROW(write_figure_source(figure, {}, folder_ / "missing"), std::system_error);
}

TEST_F(FigureTest, TextBeforeTheNumbersHasNoDoubleQuotes) {
  Figure figure = example();
  figure.data = Table({{.name = kCurveColumn, .kind = Column::Kind::text},
                       {.name = "label", .kind = Column::Kind::text},
                       {.name = "io"}});
  figure.data.add_row({"one", "a\"b,c", 0.5});
  figure.panels.clear();
  write_figure_source(figure, {}, folder_);
  EXPECT_EQ(content("f.csv"), "curve,label,io\none,\"a'b,c\",0.5\n");
}

TEST_F(FigureTest, GnuplotDrawsEveryFormatWithoutComplaint) {
  write_figure_source(example(), {}, folder_);
  const GnuplotRun run = draw_figure(example(), folder_, kFigureFormats);
  if (run.status == GnuplotRun::Status::not_installed) GTEST_SKIP() << "gnuplot is not installed";
  ASSERT_EQ(run.status, GnuplotRun::Status::done) << run.message;
  EXPECT_THAT(content("f.pdf"), testing::StartsWith("%PDF"));
  EXPECT_THAT(content("f.png"), testing::StartsWith("\x89PNG"));
  EXPECT_THAT(content("f.tikz"), HasSubstr("bytes (\\%)"));
  const std::string svg = content("f.svg");
  for (const char* text : {"it's_{a}; `b` %d 'q' ü", "two points", "bands: it's", "LSE error", "(c) nothing"}) {
    std::string escaped = text;
    for (std::size_t at = 0; (at = escaped.find('\'', at)) != std::string::npos; at += 5)
      escaped.replace(at, 1, "&#39;");
    EXPECT_TRUE(svg.find(text) != std::string::npos || svg.find(escaped) != std::string::npos) << text;
  }
  EXPECT_THAT(svg, HasSubstr("font-size=\"9.33\""));  // 7 pt at 96 dots per inch
  EXPECT_THAT(svg, HasSubstr("width=\"317\""));       // 3.3 in
}

TEST_F(FigureTest, DrawsOnlyTheFormatsAsked) {
  write_figure_source(example(), {}, folder_);
  const GnuplotRun run = draw_figure(example(), folder_, {"svg"});
  if (run.status == GnuplotRun::Status::not_installed) GTEST_SKIP() << "gnuplot is not installed";
  EXPECT_TRUE(fs::exists(folder_ / "f.svg"));
  EXPECT_FALSE(fs::exists(folder_ / "f.pdf"));
}

TEST_F(FigureTest, ABrokenScriptIsReportedWithItsLine) {
  write_figure_source(example(), {}, folder_);
  scratch_.write("f.gp", "set encoding utf8\nplot no_such_variable\n");
  const GnuplotRun run = draw_figure(example(), folder_, {"svg"});
  if (run.status == GnuplotRun::Status::not_installed) GTEST_SKIP() << "gnuplot is not installed";
  EXPECT_EQ(run.status, GnuplotRun::Status::failed);
  EXPECT_THAT(run.message, HasSubstr("gnuplot could not draw f.gp: line 2: undefined variable: no_such_variable"));
}

/// gnuplot as it is on a full disk: the pdf is cut, and it reports success.
TEST_F(FigureTest, ATruncatedPictureIsReportedAndNoneRemains) {
  write_figure_source(example(), {}, folder_);
  const fs::path program =
      scratch_.write("gnuplot", "#!/bin/sh\necho '<svg></svg>' > f.svg\nprintf '%%PDF-1.5' > f.pdf\n");
  fs::permissions(program, fs::perms::owner_all);
  const std::string path = std::getenv("PATH");
  setenv("PATH", (folder_.string() + ":/usr/bin:/bin").c_str(), 1);
  const GnuplotRun whole = draw_figure(example(), folder_, {"svg"});
  EXPECT_EQ(whole.status, GnuplotRun::Status::done) << whole.message;
  EXPECT_TRUE(fs::exists(folder_ / "f.svg"));
  const GnuplotRun run = draw_figure(example(), folder_, {"svg", "pdf"});
  setenv("PATH", path.c_str(), 1);
  EXPECT_EQ(run.status, GnuplotRun::Status::not_written);
  EXPECT_EQ(run.message, "f.pdf is missing or truncated; is the disk full?");
  EXPECT_FALSE(fs::exists(folder_ / "f.svg"));
  EXPECT_FALSE(fs::exists(folder_ / "f.pdf"));
}

}  // namespace
}  // namespace attest
