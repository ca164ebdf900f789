// Lines of texts: where they break, and that those of neighbours do not meet.
#include "plots/text_lines.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "plots/layout_lengths.h"

namespace attest {
namespace {

using Lines = std::vector<std::string>;

TEST(TextLines, BreakAtSpaces) {
  EXPECT_EQ(lines_of("", 5), Lines());
  EXPECT_EQ(lines_of("abcde", 5), Lines{"abcde"}) << "of exactly the width";
  EXPECT_EQ(lines_of("abcde f", 5), (Lines{"abcde", "f"})) << "the space behind a whole line is dropped";
  EXPECT_EQ(lines_of("ab cde f", 5), (Lines{"ab", "cde f"}));
  EXPECT_EQ(lines_of("a bb ccc dddd", 6), (Lines{"a bb", "ccc", "dddd"}));
}

TEST(TextLines, AWordThatIsTooLongIsCut) {
  EXPECT_EQ(lines_of("abcdefghijkl", 5), (Lines{"abcde", "fghij", "kl"}));
  EXPECT_EQ(lines_of("a bcdefghij", 5), (Lines{"a", "bcdef", "ghij"}));
  EXPECT_EQ(lines_of("\u00e4\u00f6\u00fc", 2), (Lines{"\u00e4\u00f6", "\u00fc"})) << "characters are whole";
}

TEST(TextLines, TheLineAcrossThePageFollowsItsTextSize) {
  FigureLayout layout;
  layout.width_in = 100 * kCharacterWidth + 1;
  EXPECT_EQ(characters_of_line(layout, 0.999), 100u);
  layout.text_scale = 2;
  EXPECT_LT(characters_of_line(layout, 0.999), 50u);
  EXPECT_EQ(characters_of_line(layout, 1000), 8u) << "a few always";
}

TEST(TextLines, NeighboursOfARowDoNotMeet) {
  FigureLayout layout;
  layout.width_in = 40 * kLabelCharacterWidth;
  const std::vector<double> centres{10 * kLabelCharacterWidth, 30 * kLabelCharacterWidth};
  const auto rows = row_of_lines({"seventeen letters", "seventeen letters"}, centres, layout);
  ASSERT_EQ(rows.size(), 2u);
  for (const Lines& lines : rows) EXPECT_EQ(lines, Lines{"seventeen letters"}) << "together 34 of 40";
  const auto broken = row_of_lines({"as long as the half of the page", "short"}, centres, layout);
  EXPECT_GT(broken[0].size(), 1u);
  for (const std::string& line : broken[0]) EXPECT_LE(line.size(), 20u) << "the page ends there";
  EXPECT_EQ(broken[1], Lines{"short"});
}

}  // namespace
}  // namespace attest
