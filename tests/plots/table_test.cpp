// Output of tables as csv, Markdown and LaTeX, and misuse.
#include "plots/table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <sstream>
#include <stdexcept>

namespace attest {
namespace {

Table example() {
  Table table({{.name = "label", .kind = Column::Kind::text, .heading = "Selector"},
               {.name = "keep_ratio", .heading = "Keep ratio (%)", .decimals = 1},
               {.name = "cells", .decimals = 0}});
  table.add_row({"ffd", 6.42, 1024.0});
  table.add_row({"a,\"b\"\n_c|", std::numeric_limits<double>::quiet_NaN(), 0.0});
  return table;
}

std::string written(void (*write)(const Table&, std::ostream&), const Table& table) {
  std::ostringstream out;
  write(table, out);
  return out.str();
}

TEST(Table, CsvQuotesWhatWouldSplitACell) {
  EXPECT_EQ(written([](const Table& t, std::ostream& out) { write_csv(t, out); }, example()),
            "label,keep_ratio,cells\n"
            "ffd,6.42,1024\n"
            "\"a,\"\"b\"\"\n_c|\",nan,0\n");
}

TEST(Table, CsvKeepsTenDigitsAndNamesWhatIsNotFinite) {
  Table table({{.name = "x"}});
  for (double x : {1.0 / 3, 123456789.25, -std::nan(""), -std::numeric_limits<double>::infinity(), 1e-12,
                   12345678901234.0, -0x1.fp52, 0x1p60, 0.0})
    table.add_row({x});
  EXPECT_EQ(written([](const Table& t, std::ostream& out) { write_csv(t, out); }, table),
            "x\n0.3333333333\n123456789.2\nnan\n-inf\n1e-12\n12345678901234\n-8725724278030336\n1.152921505e+18\n0\n");
}

TEST(Table, NumbersAreWrittenForTheirReaders) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const Column named{.name = "x", .heading = "X", .decimals = 2}, plain{.name = "x"};
  struct Case {
    double value;
    const char *csv, *printed, *page, *page_plain;
  };
  for (const Case& c :
       {Case{1.0 / 3, "0.3333333333", "0.33", "0.33", "0.333333"}, Case{-std::nan(""), "nan", "-", "\u2013", "\u2013"},
        Case{kInfinity, "inf", "inf", "\u221e", "\u221e"},
        Case{-kInfinity, "-inf", "-inf", "\u2212\u221e", "\u2212\u221e"}}) {
    EXPECT_EQ(number_text(c.value, named, NumberStyle::csv), c.csv);
    EXPECT_EQ(number_text(c.value, named, NumberStyle::printed), c.printed);
    EXPECT_EQ(number_text(c.value, named, NumberStyle::page), c.page);
    EXPECT_EQ(number_text(c.value, plain, NumberStyle::page), c.page_plain);
  }
}

TEST(Table, MarkdownEscapesAndRoundsForPrint) {
  EXPECT_EQ(written(write_markdown, example()),
            "| Selector | Keep ratio (%) | cells |\n"
            "|---|--:|--:|\n"
            "| ffd | 6.4 | 1024 |\n"
            "| a,\"b\" \\_c\\| | - | 0 |\n");
}

TEST(Table, LatexIsABooktabsTabular) {
  EXPECT_EQ(written(write_latex, example()),
            "\\begin{tabular}{lrr}\n\\toprule\n"
            "Selector & Keep ratio (\\%) & cells \\\\\n\\midrule\n"
            "ffd & 6.4 & 1024 \\\\\n"
            "a,\"b\" \\_c$|$ & - & 0 \\\\\n"
            "\\bottomrule\n\\end{tabular}\n");
}

TEST(Table, LatexEscapesEveryActiveCharacter) {
  Table table({{.name = "x", .kind = Column::Kind::text}});
  table.add_row({"\\&%$#_{}~^"});
  EXPECT_NE(
      written(write_latex, table).find("\\textbackslash{}\\&\\%\\$\\#\\_\\{\\}\\textasciitilde{}\\textasciicircum{}"),
      std::string::npos);
}

TEST(Table, RefusesRowsThatDoNotFit) {
  Table table = example();
  EXPECT_THROW(table.add_row({"ffd", 1.0}), std::logic_error);
  EXPECT_THROW(table.add_row({"ffd", "text", 1.0}), std::logic_error);
  EXPECT_EQ(table.rows(), 2u);
  EXPECT_EQ(table.texts("label").size(), 2u) << "a refused row leaves no cell behind";
}

TEST(Table, FindsColumnsByNameAndKind) {
  const Table table = example();
  EXPECT_EQ(table.numbers("cells"), (std::vector<double>{1024, 0}));
  EXPECT_EQ(table.texts("label").front(), "ffd");
  EXPECT_THROW(table.numbers("label"), std::logic_error);
  EXPECT_THROW(table.texts("nothing"), std::logic_error);
}

}  // namespace
}  // namespace attest
