// Text made fit for gnuplot, HTML, LaTeX and Markdown: nothing of it has a meaning there.
#include "plots/code.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <type_traits>

#include "plots/gnuplot.h"
#include "plots/page/page.h"
#include "tests/dumps/scratch_folder.h"

namespace attest {
namespace {

static_assert(std::is_convertible_v<const char (&)[8], Html>);
static_assert(!std::is_convertible_v<char (&)[8], Html>, "a buffer may hold text that is not fit");

TEST(Gnuplot, TextWithoutASingleQuoteStandsInSingleQuotes) {
  EXPECT_EQ(gnuplot_text("`id` \"x\" \\n").text(), "'`id` \"x\" \\n'");
  EXPECT_EQ(gnuplot_text("two\nlines\x7f").text(), "'two lines '");
  EXPECT_EQ(gnuplot_text("δ").text(), "'δ'");
}

TEST(Gnuplot, TextWithOneStandsInDoubleQuotes) {
  EXPECT_EQ(gnuplot_text("it's `id` \"x\" \\n").text(), "\"it's \\140id\\140 \\042x\\042 \\134n\"");
}

/// gnuplot 5.4 misreads '''a' and 'a''''b'.
TEST(Gnuplot, ReadsBackEveryQuotedText) {
  const ScratchFolder folder;
  std::string script = "set print 'read.txt'\n", expected;
  for (const std::string text : {"'a", "\"a", "a''b", "''", "'", "a'\"`b`", "a\\", "'a\\", "$(x) {/b} %d 'n' ü"}) {
    script += "print " + gnuplot_text(text).text() + "\n";
    expected += text + "\n";
  }
  std::ofstream(folder.file("x.gp")) << script;
  const GnuplotRun run = run_gnuplot(std::filesystem::path(folder.file("x.gp")).parent_path(), "x.gp", {});
  if (run.status == GnuplotRun::Status::not_installed) GTEST_SKIP() << "gnuplot is not installed";
  ASSERT_EQ(run.status, GnuplotRun::Status::done) << run.message;
  EXPECT_EQ(bytes_of_file(folder.file("read.txt")), expected);
}

TEST(Html, NothingOfATextIsMarkup) {
  EXPECT_EQ(html_text("<b a=\"x\" c='y'>&amp;").text(), "&lt;b a=&quot;x&quot; c=&#39;y&#39;&gt;&amp;amp;");
  EXPECT_EQ(html_text("δ ≤ 5").text(), "δ ≤ 5");
}

TEST(Html, JsonDoesNotEndItsScript) {
  EXPECT_EQ(json_in_script(R"({"a":"</script><!--<script>"})").text(),
            R"({"a":"\u003c/script>\u003c!--\u003cscript>"})");
}

TEST(Latex, CharactersWithAMeaningAreEscaped) {
  EXPECT_EQ(latex_text("50 % of a_b & {c} #1 $x").text(), "50 \\% of a\\_b \\& \\{c\\} \\#1 \\$x");
  EXPECT_EQ(latex_text("\\~^").text(), "\\textbackslash{}\\textasciitilde{}\\textasciicircum{}");
}

TEST(Latex, SignsThatFontsLackBecomeCommands) {
  EXPECT_EQ(latex_text("time of a layer (\u00b5s)").text(), "time of a layer ($\\mu$s)");
  EXPECT_EQ(latex_text("\u03b4 = 5, \u22650.999, 25\u201375").text(), "$\\delta$ = 5, $\\ge$0.999, 25--75");
  EXPECT_EQ(latex_text("norm(q)/\u221aD").text(), "norm(q)/$\\surd$D") << "of the figure error_bound";
  EXPECT_EQ(latex_text("ffd:gqa=union, \u00e9").text(), "ffd:gqa=union, \u00e9");
}

TEST(Markdown, TagsLinksAndCodeAreText) {
  EXPECT_EQ(markdown_text("<img src=x>[x](y) `z` a_b").text(), "\\<img src=x>\\[x\\](y) \\`z\\` a_b");
  EXPECT_EQ(markdown_text("\\<img\n\\[x\\](y)").text(), "\\\\\\<img \\\\\\[x\\\\\\](y)")
      << "no backslash undoes another";
  EXPECT_EQ(markdown_cell("a_b*c|d").text(), "a\\_b\\*c\\|d");
  EXPECT_EQ(markdown_text("a&lt;b *c*").text(), "a\\&lt;b \\*c\\*");
  EXPECT_EQ(markdown_cell("a&lt;b").text(), "a\\&lt;b");
}

TEST(Markdown, UnderscoresWithinWordsHaveNoMeaning) {
  EXPECT_EQ(markdown_text("kv_head __x__ _y_").text(), "kv_head \\_\\_x\\_\\_ \\_y\\_");
}

}  // namespace
}  // namespace attest
