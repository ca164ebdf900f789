// Text that LaTeX prints as it was.
#include "plots/latex_text.h"

#include <gtest/gtest.h>

namespace attest {
namespace {

TEST(LatexText, CharactersWithAMeaningAreEscaped) {
  EXPECT_EQ(latex_text("50 % of a_b & {c} #1 $x"), "50 \\% of a\\_b \\& \\{c\\} \\#1 \\$x");
  EXPECT_EQ(latex_text("\\~^"), "\\textbackslash{}\\textasciitilde{}\\textasciicircum{}");
}

TEST(LatexText, SignsThatFontsLackBecomeCommands) {
  EXPECT_EQ(latex_text("\u03b4 = 5, \u22650.999, 25\u201375"), "$\\delta$ = 5, $\\ge$0.999, 25--75");
}

TEST(LatexText, OtherTextStays) { EXPECT_EQ(latex_text("ffd:gqa=union, \u00e9"), "ffd:gqa=union, \u00e9"); }

}  // namespace
}  // namespace attest
