// Figures of several studies: what is drawn of one is not said of another.
#include "experiments/study_view/facets.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace attest {
namespace {

StudyResult study_of(const std::string& name, const std::string& note, int columns, int panels) {
  Table table({{.name = kCurveColumn, .kind = kText}, {.name = "x"}, {.name = "y"}});
  table.add_row({std::string("ffd"), 1.0, 2.0});
  Figure figure{.name = "f", .note = note, .data = table, .columns = columns};
  for (int i = 0; i < panels; ++i)
    figure.panels.push_back(
        {.title = panel_title(static_cast<std::size_t>(i), name), .x = {}, .y = {}, .series = {{"ffd", "", "x", "y"}}});
  return {name, {.figures = {figure}}};
}

TEST(Facets, ANoteOfOneStudyHasItsName) {
  const ExperimentResult whole = facets({study_of("tiny", "all keep 12.31 % in the mean; bands: 5–95 %", 2, 2),
                                         study_of("large", "all keep 8.00 % in the mean; bands: 5–95 %", 2, 2)});
  EXPECT_EQ(whole.figures[0].note,
            "bands: 5–95 %; tiny: all keep 12.31 % in the mean; large: all keep 8.00 % in the mean");
}

TEST(Facets, ANoteThatAllHaveStandsOnce) {
  EXPECT_EQ(facets({study_of("a", "x; y", 1, 1), study_of("b", "x; y", 1, 1)}).figures[0].note, "x; y");
  EXPECT_EQ(facets({study_of("a", "", 1, 1), study_of("b", "y", 1, 1)}).figures[0].note, "b: y");
}

TEST(Facets, AStudyBeginsARow) {
  for (const std::vector<int>& columns : {std::vector{2, 1, 2}, std::vector{1, 2, 1}}) {
    std::vector<StudyResult> results;
    for (std::size_t i = 0; i < columns.size(); ++i)
      results.push_back(study_of("s" + std::to_string(i), "", columns[i], columns[i]));
    const Figure whole = facets(std::move(results)).figures[0];
    EXPECT_EQ(whole.columns, 2);
    std::vector<std::size_t> begins;
    for (std::size_t i = 0; i < whole.panels.size(); ++i)
      if (whole.panels[i].title.starts_with("s")) begins.push_back(i);
    EXPECT_EQ(begins, (std::vector<std::size_t>{0, 2, 4}));
  }
}

}  // namespace
}  // namespace attest
