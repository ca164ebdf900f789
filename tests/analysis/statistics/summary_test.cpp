#include "analysis/statistics/summary.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "tests/analysis/results/small_study.h"
#include "tests/dumps/scratch_folder.h"

namespace attest {
namespace {

using testing::value_at;

/// Of the column with that key.
double value_of(const Summary& summary, std::size_t row, std::string_view key) {
  const auto column = std::ranges::find(summary.columns, key, &SummaryHeading::key);
  if (column == summary.columns.end()) throw std::runtime_error("no column " + std::string(key));
  return summary.rows.at(row).values.at(static_cast<std::size_t>(column - summary.columns.begin()));
}

TEST(Summary, PoolsTheCellsOfTheComparedLayers) {
  const ScratchFolder folder;
  testing::write_small_study(folder.file("r.h5"));
  const ResultsFile file(folder.file("r.h5"));
  const Summary summary = summarize(file, false);
  ASSERT_EQ(summary.rows.size(), 4u);
  EXPECT_EQ(summary.rows[1].label, "zeta");
  EXPECT_EQ(summary.rows[1].setting_label, "5");
  EXPECT_EQ(summary.rows[3].setting, "none");
  EXPECT_EQ(summary.dense_layers, (std::vector<int>{0}));

  double sum = 0;
  int cells = 0;
  const Study study = testing::small_study();
  testing::each_unit(study, [&](int d, int s, int layer) {
    if (layer == 0) return;  // dense in one selector, so left out of both
    const StudyDump& dump = study.dumps[static_cast<std::size_t>(d)];
    for (std::size_t q = 0; q < dump.samples[static_cast<std::size_t>(s)].query_positions.size(); ++q)
      for (int h = 0; h < dump.shape.num_query_heads; ++h, ++cells)
        sum += value_at(d, s, layer, static_cast<std::int64_t>(q), h, 1, 2);
  });
  EXPECT_NEAR(value_of(summary, 1, "mean_recall"), sum / cells, 1e-6);
  EXPECT_EQ(value_of(summary, 1, "min_recall"), value_at(0, 0, 2, 0, 0, 1, 2));
  EXPECT_EQ(value_of(summarize(file, true), 1, "min_recall"), value_at(0, 0, 0, 0, 0, 1, 2));
  EXPECT_TRUE(std::isnan(value_of(summary, 1, "max_lse_error"))) << "the small study has none";
}

/// A study of one selector whose keep ratio is `keep` at every cell.
Summary with_keep_ratio(float keep, SettingKind kind) {
  const ScratchFolder folder;
  Study study = testing::small_study();
  study.selectors.resize(1);
  study.selectors[0].kind = kind;
  {
    ResultsWriter writer(folder.file("r.h5"), study);
    testing::each_unit(study, [&](int d, int s, int layer) {
      LayerResults results = testing::small_results(study, d, s, layer);
      MetricValues ratio = results.selectors[0].metrics[0];
      ratio.name = "keep_ratio";
      ratio.values.assign(ratio.values.size(), 1);
      if (layer == 3) ratio.values[0] = keep;
      results.selectors[0].metrics.push_back(ratio);
      writer.add(results);
    });
    writer.finish("{}");
  }
  return summarize(ResultsFile(folder.file("r.h5")), false);
}

TEST(Summary, NamesSelectorsThatDroppedNothing) {
  EXPECT_EQ(with_keep_ratio(1, SettingKind::delta).dropped_nothing, (std::vector<std::string>{"zeta"}));
  EXPECT_TRUE(with_keep_ratio(0.999f, SettingKind::delta).dropped_nothing.empty());
  EXPECT_TRUE(with_keep_ratio(1, SettingKind::none).dropped_nothing.empty()) << "a method that drops nothing by nature";
}

}  // namespace
}  // namespace attest
