// The summary: pooling of cells of a model, dense layers, and equality of the summaries of layers and of the file.
#include "analysis/statistics/summary.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

#include "tests/analysis/results/small_study.h"
#include "tests/analysis/studies.h"
#include "tests/cases.h"
#include "tests/dumps/scratch_folder.h"
#include "tests/near.h"

namespace attest {
namespace {

using test::value_at;

/// Value of a row in the column with that key.
double value_of(const Summary& summary, std::size_t row, std::string_view key) {
  const auto column = std::ranges::find(summary.columns, key, &SummaryHeading::key);
  if (column == summary.columns.end()) throw std::runtime_error("no column " + std::string(key));
  return summary.rows.at(row).values.at(static_cast<std::size_t>(column - summary.columns.begin()));
}

TEST(Summary, PoolsTheCellsOfTheComparedLayers) {
  const ScratchFolder folder;
  test::write_small_study(folder.file("r.h5"));
  const ResultsFile file(folder.file("r.h5"));
  const Summary summary = summarize(file, false);
  ASSERT_EQ(summary.rows.size(), 8u);
  EXPECT_EQ(summary.rows[3].model, "test/one");
  EXPECT_EQ(summary.rows[4].model, "test/two");
  EXPECT_EQ(summary.rows[1].label, "zeta");
  EXPECT_EQ(summary.rows[1].setting_label, "5");
  EXPECT_EQ(summary.rows[3].setting, "none");
  EXPECT_EQ(summary.dense_layers, (std::vector<int>{0}));

  double sum[2] = {0, 0};
  int cells[2] = {0, 0};
  const Study study = test::small_study();
  test::each_unit(study, [&](int d, int s, int layer) {
    if (layer == 0) return;  // dense in one selector, so left out for both
    const StudyDump& dump = study.dumps[static_cast<std::size_t>(d)];
    for (std::size_t q = 0; q < dump.samples[static_cast<std::size_t>(s)].query_positions.size(); ++q)
      for (int h = 0; h < dump.shape.num_query_heads; ++h, ++cells[d])
        sum[d] += value_at(d, s, layer, static_cast<std::int64_t>(q), h, 1, 2);
  });
  EXPECT_NEAR(value_of(summary, 1, "mean_recall"), sum[0] / cells[0], 1e-6);
  EXPECT_NEAR(value_of(summary, 5, "mean_recall"), sum[1] / cells[1], 1e-6) << "models are never averaged";
  EXPECT_EQ(value_of(summary, 1, "min_recall"), value_at(0, 0, 2, 0, 0, 1, 2));
  EXPECT_EQ(value_of(summary, 5, "min_recall"), value_at(1, 0, 1, 0, 0, 1, 2));
  EXPECT_EQ(value_of(summarize(file, true), 1, "min_recall"), value_at(0, 0, 0, 0, 0, 1, 2));
  EXPECT_TRUE(std::isnan(value_of(summary, 1, "max_lse_error"))) << "the small study has none";
}

/// Summary of a study of one selector whose keep ratio is 1 in all cells except the first of layer 3, where it is
/// `keep`.
Summary with_keep_ratio(float keep, SettingKind kind) {
  const ScratchFolder folder;
  Study study = test::small_study();
  study.selectors.resize(1);
  study.selectors[0].kind = kind;
  {
    ResultsWriter writer(folder.file("r.h5"), study);
    test::each_unit(study, [&](int d, int s, int layer) {
      LayerResults results = test::small_results(study, d, s, layer);
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

// -- the summary made from a stream of layers equals the summary of the file written from them

/// A study of real layers: sample "a" has spans, "b" has none, quest is dense in layers 0 and 1.
class SummaryOfStream : public ::testing::Test {
 protected:
  SummaryOfStream() {
    const test::Case c{"", 2, 2, 64, 64, ElementType::bfloat16, {150, 299}};
    study_ = test::study_of({test::study_selector("quest", {{64}, {25, true}}),
                             test::study_selector("ffd:block=32", {{5}, {0.5}, {2}}),
                             test::study_selector("kivi:group=16,residual_length=32", {}),
                             test::study_selector("topk", {{100, true}}), test::study_selector("topp", {{0.9}})});
    StudyDump dump{"a.h5", "m", 6, {4, 2, 64, 64}, {}};
    dump.samples = {{"a", "t", 300, {0, 1, 5}, c.positions, true}, {"b", "t", 300, {1, 2}, c.positions, false}};
    dump.samples[0].span_tokens.resize(120);
    std::iota(dump.samples[0].span_tokens.begin(), dump.samples[0].span_tokens.end(), 0);
    study_.dumps = {dump};
    const std::unique_ptr<LayerStudy> layer_study = make_cpu_layer_study(study_, 2);
    for (const StudySample& sample : dump.samples)
      for (const int number : sample.layers) {
        AttentionLayer layer = test::make_layer(c, static_cast<std::uint64_t>(number) + 10 * sample.layers.size());
        layer.layer = number;
        if (sample.has_spans) layer.spans = {{0, 120}};
        stream_.push_back(layer_study->run(layer));
        stream_.back().sample = sample.name;
      }
  }

  void leave_out(const std::string& sample, int layer) {
    for (LayerResults& results : stream_)
      if (results.sample == sample && results.layer == layer)
        results = {.dump = 0, .sample = sample, .layer = layer, .done = false, .scores = {}, .selectors = {}};
  }

  Summary of_stream(bool with_dense_layers) const {
    SummaryBuilder builder(study_, with_dense_layers);
    for (const LayerResults& layer : stream_) builder.add(layer);
    return builder.finish();
  }
  Summary of_file(bool with_dense_layers) const {
    const ScratchFolder folder;
    ResultsWriter writer(folder.file("r.h5"), study_);
    for (const LayerResults& layer : stream_) writer.add(layer);
    writer.finish("{}");
    return summarize(ResultsFile(folder.file("r.h5")), with_dense_layers);
  }

  /// Returns the summary of the stream, so that a test can check its contents.
  Summary expect_the_same(bool with_dense_layers) const {
    const Summary stream = of_stream(with_dense_layers), file = of_file(with_dense_layers);
    EXPECT_EQ(stream.has_cells, file.has_cells);
    EXPECT_EQ(stream.has_spans, file.has_spans);
    EXPECT_EQ(stream.with_dense_layers, with_dense_layers);
    EXPECT_EQ(file.with_dense_layers, with_dense_layers);
    EXPECT_EQ(stream.dense_layers, file.dense_layers);
    EXPECT_EQ(stream.dropped_nothing, file.dropped_nothing);
    expect_same_columns(stream, file);
    EXPECT_EQ(stream.rows.size(), file.rows.size());
    for (std::size_t r = 0; r < std::min(stream.rows.size(), file.rows.size()); ++r) {
      const SummaryRow &a = stream.rows[r], &b = file.rows[r];
      EXPECT_EQ(a.model, b.model);
      EXPECT_EQ(a.label, b.label);
      EXPECT_EQ(a.selector, b.selector);
      EXPECT_EQ(a.setting, b.setting);
      EXPECT_EQ(a.setting_label, b.setting_label);
      EXPECT_EQ(a.values.size(), stream.columns.size());
      for (std::size_t i = 0; i < std::min(a.values.size(), b.values.size()); ++i)
        EXPECT_TRUE(test::near_metric(a.values[i], b.values[i], 0))
            << a.label << " " << a.setting_label << ", " << stream.columns[i].key;
    }
    return stream;
  }

  static void expect_same_columns(const Summary& a, const Summary& b) {
    ASSERT_EQ(a.columns.size(), b.columns.size());
    for (std::size_t i = 0; i < a.columns.size(); ++i) {
      EXPECT_EQ(a.columns[i].key, b.columns[i].key);
      EXPECT_EQ(a.columns[i].heading, b.columns[i].heading);
      EXPECT_EQ(a.columns[i].unit, b.columns[i].unit);
    }
  }

  Study study_;
  std::vector<LayerResults> stream_;
};

TEST_F(SummaryOfStream, EqualsSummaryOfFile) {
  for (const bool with_dense_layers : {false, true}) {
    const Summary summary = expect_the_same(with_dense_layers);
    EXPECT_EQ(summary.rows.size(), 8u);
    EXPECT_EQ(summary.dense_layers, (std::vector<int>{0, 1}));
    EXPECT_EQ(summary.dropped_nothing, (std::vector<std::string>{"topk"}));
    EXPECT_LT(value_of(summary, 0, "mean_recall"), 1);
    EXPECT_FALSE(std::isnan(value_of(summary, 0, "mean_span_recall"))) << "no cell holds mass on the spans";
    EXPECT_TRUE(std::isnan(value_of(summary, 7, "spearman"))) << "topp has no estimate";
  }
  EXPECT_NE(value_of(of_stream(false), 2, "mean_recall"), value_of(of_stream(true), 2, "mean_recall"));
}

/// As attest tasks does: what a method reads is a number of the whole model.
TEST_F(SummaryOfStream, CostsAreOfAllLayers) {
  const Summary without = of_stream(false), with = of_stream(true);
  for (std::size_t row = 0; row < with.rows.size(); ++row)
    for (const char* cost : {"keep_ratio", "io_ratio"})
      EXPECT_EQ(value_of(without, row, cost), value_of(with, row, cost)) << row << cost;
  EXPECT_EQ(with.columns.front().key, "mean_span_recall") << "where the evidence is read comes first";
}

TEST_F(SummaryOfStream, EqualsSummaryOfFileWhereLayersAreLeftOut) {
  leave_out("a", 5);
  leave_out("b", 1);
  for (const bool with_dense_layers : {false, true}) EXPECT_TRUE(expect_the_same(with_dense_layers).has_cells);
}

// Whether a sample has spans is known only from its computed layers, so it is not known if all are left out.
TEST_F(SummaryOfStream, EqualsSummaryOfFileWhereNoLayerWithSpansIsLeft) {
  for (const int layer : {0, 1, 5}) leave_out("a", layer);
  EXPECT_FALSE(expect_the_same(true).has_spans);
}

TEST_F(SummaryOfStream, EqualsSummaryOfFileWhereNothingIsLeft) {
  for (const int layer : {0, 1, 5}) leave_out("a", layer);
  leave_out("b", 2);
  const Summary dense_only = expect_the_same(false);
  EXPECT_FALSE(dense_only.has_cells);
  EXPECT_EQ(dense_only.dense_layers, (std::vector<int>{1}));
  leave_out("b", 1);
  EXPECT_TRUE(expect_the_same(true).dense_layers.empty());
}

TEST(Summary, NamesSelectorsThatDroppedNothing) {
  EXPECT_EQ(with_keep_ratio(1, SettingKind::delta).dropped_nothing, (std::vector<std::string>{"zeta"}));
  EXPECT_TRUE(with_keep_ratio(0.999f, SettingKind::delta).dropped_nothing.empty());
  EXPECT_TRUE(with_keep_ratio(1, SettingKind::none).dropped_nothing.empty()) << "a method that drops nothing by nature";
}

}  // namespace
}  // namespace attest
