// Labels as settings: their cells are those of the labels, in the order given.
#include "analysis/validation/candidates.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "analysis/validation/prompt_values.h"
#include "dumps/base/error.h"
#include "tests/analysis/validation/made_results.h"
#include "tests/dumps/scratch_folder.h"
#include "tests/message_of.h"

namespace attest {
namespace {

using test::CellPlace;
using test::MadeStudy;
using test::OpenSet;

StudySelector labelled(const std::string& label) {
  return {.label = label, .name = label.substr(0, 1), .options_json = "{}", .grid = {{}}, .setting_labels = {""}};
}

float value_at(const CellPlace& at) {
  return static_cast<float>(at.prompt * 10000 + static_cast<std::size_t>(at.layer) * 1000 +
                            static_cast<std::size_t>(at.query) * 100 + static_cast<std::size_t>(at.head) * 10 +
                            at.setting + 3 * at.selector) /
         100000;
}

/// ffd at 3, 5, 7, and the labels a, b and x@7 without settings.
MadeStudy made(const std::string& path = "d.h5") {
  return {.path = path,
          .more_selectors = {labelled("a"), labelled("b"), labelled("x@7")},
          .prompts = test::made_prompts(2),
          .metrics = {{"recall", value_at}, {"own_number", value_at, MetricAxes::query_head}}};
}

std::string written(const std::string& name, const MadeStudy& study) {
  static const ScratchFolder folder;
  const std::string path = folder.file(name);
  test::write_made(path, study);
  return path;
}

std::string refusal(const std::vector<std::string>& paths, const std::vector<std::string>& candidates) {
  return message_of<UsageError>([&] { OpenSet(paths, {.candidates = candidates}); });
}

TEST(Candidates, CellsAreThoseOfTheLabelsInTheirOrder) {
  const std::string path = written("order.h5", made());
  const OpenSet open({path}, {.candidates = {"b", "ffd@7.0", "x@7", "ffd@3"}});
  const PromptSet& set = open.set;
  EXPECT_EQ(set.settings, (std::vector<std::size_t>{0, 1, 2, 3}));
  EXPECT_EQ(set.selector.setting_labels, (std::vector<std::string>{"b", "ffd@7.0", "x@7", "ffd@3"}));
  EXPECT_EQ(set.selector.label, "b, ffd@7.0, x@7, ffd@3");
  const CellPlace where[] = {{.selector = 2}, {.setting = 2}, {.selector = 3}, {}};
  for (const char* metric : {"recall", "recall.min"})
    for (std::size_t p = 0; p < 2; ++p) {
      const auto cells = read_cells(set.prompts[p], parse_metric_statistic(metric));
      ASSERT_TRUE(cells);
      ASSERT_EQ(cells->num_settings, 4u);
      for (int layer = 0; layer < 2; ++layer)
        for (std::int64_t n = 0; n < 2; ++n)
          for (std::int64_t h = 0; h < 4; ++h)
            for (std::size_t c = 0; c < 4; ++c)
              EXPECT_EQ(cells->cell(static_cast<std::size_t>(layer), n, h)[c],
                        value_at({p, layer, n, h, where[c].setting, where[c].selector}));
    }
}

TEST(Candidates, WhatIsRefused) {
  const std::string path = written("refused.h5", made());
  EXPECT_NE(refusal({path}, {"a", "ffd"}).find("'ffd' of "), std::string::npos);
  EXPECT_NE(refusal({path}, {"a", "ffd"}).find("settings 3, 5, 7, expected one of them: ffd@3"), std::string::npos);
  EXPECT_NE(refusal({path}, {"a", "ffd@4"}).find("has the settings 3, 5, 7, found '4'"), std::string::npos);
  EXPECT_NE(refusal({path}, {"c"}).find("has no 'c'"), std::string::npos);
  EXPECT_NE(refusal({path}, {"ffd@5", "a", "ffd@5.0"}).find("'ffd@5' and 'ffd@5.0' are the same"), std::string::npos);
  EXPECT_EQ(refusal({path}, {"x@7"}), "");
}

TEST(Candidates, FilesOfSeveralStudies) {
  const std::string first = written("first.h5", made());
  MadeStudy grid = made("e.h5");  // has 7 at another place of its grid
  grid.selector.grid = {{7}, {5}};
  grid.selector.setting_labels = {"7", "5"};
  const std::string second = written("second.h5", grid);
  const OpenSet open({first, second}, {.candidates = {"ffd@7", "a"}});
  ASSERT_EQ(open.set.prompts.size(), 4u);
  const MetricStatistic recall = parse_metric_statistic("recall");
  for (const Prompt& prompt : open.set.prompts) {
    const CellPlace at{.prompt = prompt.sample, .setting = prompt.origin == "d.h5" ? 2u : 0u};
    EXPECT_EQ(read_cells(prompt, recall)->cell(0, 0, 0)[0], value_at(at));
  }
  EXPECT_NE(refusal({first, second}, {"a", "ffd@3"}).find("different studies"), std::string::npos);
  MadeStudy options = made("f.h5");
  options.more_selectors[0].options_json = R"({"k":"nvfp4"})";
  EXPECT_NE(refusal({first, written("third.h5", options)}, {"b", "a"}).find("different studies"), std::string::npos);
  MadeStudy missing = made("g.h5");
  missing.more_selectors.resize(1);
  EXPECT_NE(refusal({first, written("fourth.h5", missing)}, {"b", "a"}).find("has no selector 'b'"), std::string::npos);
}

TEST(Candidates, MetricThatOneLacksIsNotReadOfTheOthers) {
  const std::string path = written("lacks.h5", made());
  const OpenSet open({path}, {.candidates = {"a", "b"}});
  EXPECT_FALSE(read_cells(open.set.prompts[0], parse_metric_statistic("io_ratio")));
}

}  // namespace
}  // namespace attest
