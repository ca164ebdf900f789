// Cells read from results files: the right layers, settings and files.
#include "analysis/statistics/sample_cells.h"

#include <gtest/gtest.h>

#include "tests/analysis/results/small_study.h"
#include "tests/analysis/validation/made_results.h"
#include "tests/dumps/scratch_folder.h"

namespace attest {
namespace {

using test::value_at;

class SampleCellsTest : public ::testing::Test {
 protected:
  SampleCellsTest() {
    test::write_small_study(folder_.file("r.h5"));
    file_.emplace(folder_.file("r.h5"));
    files_ = {&*file_};
  }
  ScratchFolder folder_;
  std::optional<ResultsFile> file_;
  std::vector<const ResultsFile*> files_;
};

TEST_F(SampleCellsTest, LayersThatAreDenseInAnySelectorAreLeftOutOfAll) {
  // Layer 0 is dense in the other selector.
  const std::vector<SampleCells> cells = gather(files_, "zeta", "recall", "5");
  ASSERT_EQ(cells.size(), 3u);
  EXPECT_EQ(cells[0].layers, (std::vector<int>{2, 5}));
  EXPECT_EQ(cells[0].values.size(), 2u * 2 * 4);
  EXPECT_EQ(gather(files_, "zeta", "recall", "5", {.compared = {"zeta"}, .with_dense_layers = false})[0].layers,
            (std::vector<int>{0, 2, 5}));
  EXPECT_EQ(gather(files_, "zeta", "recall", "5", {.compared = {}, .with_dense_layers = true})[0].layers,
            (std::vector<int>{0, 2, 5}));
  EXPECT_EQ(gather(files_, "alpha=1", "recall", "", {.compared = {"zeta"}, .with_dense_layers = false})[0].layers,
            (std::vector<int>{2, 5}))
      << "a selector's own dense layers are never averaged unasked";
}

TEST_F(SampleCellsTest, ASettingIsFoundByItsLabel) {
  const std::vector<SampleCells> cells = gather(files_, "zeta", "recall", "1.50");
  std::size_t i = 0;
  for (const int layer : {2, 5})
    for (int q = 0; q < 2; ++q)
      for (int h = 0; h < 4; ++h) EXPECT_EQ(cells[0].values[i++], value_at(0, 0, layer, q, h, 2, 2));
  EXPECT_EQ(cells[1].sample, "t");
  EXPECT_EQ(cells[1].task, "longbench");
  EXPECT_EQ(cells[2].dump, 1);
  EXPECT_TRUE(gather(files_, "zeta", "recall", "1.5").empty()) << "as typed";
}

TEST_F(SampleCellsTest, MetricsWithoutSettingsIgnoreThem) {
  const std::vector<std::vector<SampleCells>> spearman = gather_settings(files_, "zeta", "spearman");
  ASSERT_EQ(spearman.size(), 1u);
  EXPECT_EQ(spearman[0][0].values[3], value_at(0, 0, 2, 0, 3, 0, 5));
  const std::vector<std::vector<SampleCells>> layer = gather_settings(files_, "zeta", "recall_layer");
  ASSERT_EQ(layer.size(), 3u);
  EXPECT_EQ(layer[1][0].num_heads, 1);
  EXPECT_EQ(layer[1][0].values, (std::vector<float>{value_at(0, 0, 2, 0, 0, 1, 3), value_at(0, 0, 2, 1, 0, 1, 3),
                                                    value_at(0, 0, 5, 0, 0, 1, 3), value_at(0, 0, 5, 1, 0, 1, 3)}));
  const std::vector<SampleCells> lse = gather_scores(files_, "zeta", "lse");
  ASSERT_EQ(lse.size(), 3u);
  EXPECT_EQ(lse[0].layers, (std::vector<int>{2, 5}));
  EXPECT_EQ(lse[0].values[0], value_at(0, 0, 2, 0, 0, 0, 1));
}

TEST_F(SampleCellsTest, FilesArePooledAndTheirDumpsNumberedOn) {
  const std::vector<const ResultsFile*> twice{&*file_, &*file_};
  const std::vector<SampleCells> cells = gather(twice, "zeta", "recall", "5");
  ASSERT_EQ(cells.size(), 6u);
  EXPECT_EQ(cells[3].dump, 2);
  EXPECT_EQ(cells[5].dump, 3);
  EXPECT_EQ(cells[3].values, cells[0].values);
}

TEST_F(SampleCellsTest, WhatIsNotThereIsEmpty) {
  EXPECT_TRUE(gather(files_, "zeta", "no_such_metric", "5").empty());
  EXPECT_TRUE(gather(files_, "no such label", "recall", "5").empty());
  EXPECT_TRUE(gather_settings(files_, "no such label", "recall").empty());
}

/// Of the table of metrics, and of those that a selector alone has.
TEST(SampleCells, HaveTheRangeOfTheirMetric) {
  const ScratchFolder folder;
  test::MadeStudy made;
  made.prompts = test::made_prompts(1);
  for (const char* metric : {"recall", "block_keep_ratio"})
    made.metrics.push_back({metric, [](const test::CellPlace& at) { return static_cast<float>(test::noise(1, at)); }});
  write_made(folder.file("r.h5"), made);
  const ResultsFile file(folder.file("r.h5"));
  const ResultsFile* files[] = {&file};
  for (const auto& [metric, min] : {std::pair("recall", -1), std::pair("block_keep_ratio", 0)}) {
    const std::vector<SampleCells> cells = gather(files, "ffd", metric, "5");
    ASSERT_EQ(cells.size(), 1u);
    EXPECT_EQ(cells[0].range.min, min) << metric;
    EXPECT_EQ(cells[0].range.max, 1) << metric;
  }
}

TEST(SampleCells, LayersThatWereNotComputedNeverAppear) {
  const ScratchFolder folder;
  const Study study = test::small_study();
  {
    ResultsWriter writer(folder.file("r.h5"), study);
    test::each_unit(study, [&](int d, int s, int layer) {
      if (layer != 5) writer.add(test::small_results(study, d, s, layer));
    });
    writer.finish("{}");
  }
  const ResultsFile file(folder.file("r.h5"));
  const ResultsFile* files[] = {&file};
  EXPECT_EQ(gather(files, "zeta", "recall", "5", {.compared = {}, .with_dense_layers = true})[0].layers,
            (std::vector<int>{0, 2}));
}

}  // namespace
}  // namespace attest
