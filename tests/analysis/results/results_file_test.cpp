// ResultsFile reads every value that ResultsWriter wrote; a file appears complete or not at all. (run_test.py reads
// results files with h5py.)
#include "analysis/results/results_file.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>

#include "dumps/base/error.h"
#include "tests/analysis/results/small_study.h"
#include "tests/dumps/hdf5_edit.h"
#include "tests/dumps/scratch_folder.h"
#include "tests/message_of.h"

namespace attest::test {
namespace {

TEST(ResultsFile, TellsWhatWasStudied) {
  const ScratchFolder folder;
  write_small_study(folder.file("r.h5"));
  const ResultsFile file(folder.file("r.h5"));
  const Study expected = small_study();
  const Study& study = file.study();
  EXPECT_EQ(file.manifest(), R"({"made": "small_study.h"})");
  EXPECT_EQ(study.lambdas, expected.lambdas);
  ASSERT_EQ(study.selectors.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {  // in the order given, which is not alphabetical
    EXPECT_EQ(study.selectors[i].label, expected.selectors[i].label);
    EXPECT_EQ(study.selectors[i].name, expected.selectors[i].name);
    EXPECT_EQ(study.selectors[i].kind, expected.selectors[i].kind);
    EXPECT_EQ(study.selectors[i].options_json, expected.selectors[i].options_json);
    EXPECT_EQ(study.selectors[i].grid, expected.selectors[i].grid);
    EXPECT_EQ(study.selectors[i].setting_labels, expected.selectors[i].setting_labels);
    EXPECT_EQ(study.selectors[i].selector, nullptr) << "a file holds no code";
  }
  ASSERT_EQ(study.dumps.size(), 2u);
  for (std::size_t d = 0; d < 2; ++d) {
    EXPECT_EQ(study.dumps[d].path, expected.dumps[d].path);
    EXPECT_EQ(study.dumps[d].model, expected.dumps[d].model);
    EXPECT_EQ(study.dumps[d].num_layers, expected.dumps[d].num_layers);
    EXPECT_EQ(study.dumps[d].shape, expected.dumps[d].shape);
    ASSERT_EQ(study.dumps[d].samples.size(), expected.dumps[d].samples.size());
    for (std::size_t s = 0; s < study.dumps[d].samples.size(); ++s) {
      EXPECT_EQ(study.dumps[d].samples[s].name, expected.dumps[d].samples[s].name);
      EXPECT_EQ(study.dumps[d].samples[s].task, expected.dumps[d].samples[s].task);
      EXPECT_EQ(study.dumps[d].samples[s].num_tokens, expected.dumps[d].samples[s].num_tokens);
      EXPECT_EQ(study.dumps[d].samples[s].layers, expected.dumps[d].samples[s].layers);
      EXPECT_EQ(study.dumps[d].samples[s].query_positions, expected.dumps[d].samples[s].query_positions);
      EXPECT_EQ(study.dumps[d].samples[s].span_tokens, expected.dumps[d].samples[s].span_tokens);
    }
  }
  EXPECT_EQ(file.find_selector("alpha=1"), 1u);
  EXPECT_EQ(file.find_selector("alpha"), std::nullopt);
}

TEST(ResultsFile, HasEveryValueAtItsPlace) {
  const ScratchFolder folder;
  write_small_study(folder.file("r.h5"));
  const ResultsFile file(folder.file("r.h5"));
  const MetricArray recall = file.read(0, 0, 0, "recall").value();
  EXPECT_EQ(recall.axes, MetricAxes::query_head_setting);
  EXPECT_EQ(recall.shape, (std::vector<std::int64_t>{3, 2, 4, 3}));
  const int layers[] = {0, 2, 5};
  std::size_t i = 0;
  for (const int layer : layers)
    for (int q = 0; q < 2; ++q)
      for (int h = 0; h < 4; ++h)
        for (int s = 0; s < 3; ++s) EXPECT_EQ(recall.values[i++], value_at(0, 0, layer, q, h, s, 2));

  const MetricArray layer_recall = file.read(1, 0, 0, "recall_layer").value();
  EXPECT_EQ(layer_recall.axes, MetricAxes::query_setting);
  EXPECT_EQ(layer_recall.shape, (std::vector<std::int64_t>{1, 3, 3}));
  EXPECT_EQ(layer_recall.values[2 * 3 + 1], value_at(1, 0, 1, 2, 0, 1, 3));

  const MetricArray tail = file.read(0, 1, 1, "scan_error_tail").value();
  EXPECT_EQ(tail.axes, MetricAxes::query_head_lambda);
  EXPECT_EQ(tail.shape, (std::vector<std::int64_t>{1, 1, 4, 2}));
  EXPECT_EQ(tail.values[3 * 2 + 1], value_at(0, 1, 3, 0, 3, 1, 4));

  const MetricArray tokens = file.read(0, 0, 0, "span_token_heads").value();
  EXPECT_EQ(tokens.axes, MetricAxes::query_setting_token);
  EXPECT_EQ(tokens.shape, (std::vector<std::int64_t>{3, 2, 3, 3}));
  EXPECT_EQ(tokens.values[((2 * 2 + 1) * 3 + 1) * 3 + 2], value_at(0, 0, 5, 1, 0, 1 * 3 + 2, 6));

  const MetricArray lse = file.read_scores(1, 0, "lse").value();
  EXPECT_EQ(lse.axes, MetricAxes::query_head);
  EXPECT_EQ(lse.shape, (std::vector<std::int64_t>{1, 3, 3}));
  EXPECT_EQ(lse.values[2 * 3 + 2], value_at(1, 0, 1, 2, 2, 0, 1));

  EXPECT_EQ(file.read(0, 0, 0, "no_such_metric"), std::nullopt);
  EXPECT_EQ(file.metrics(0, 1, 0), (std::vector<std::string>{"recall", "recall_layer", "scan_error_tail", "spearman"}));
  EXPECT_THROW(file.read(0, 2, 0, "recall"), std::out_of_range);
  EXPECT_THROW(file.read(0, 0, 2, "recall"), std::out_of_range);
}

// A file of another program may have no labels. Then the axes come from the table of metrics, also for metrics whose
// rank is ambiguous.
TEST(ResultsFile, MetricsThatAreKnownNeedNoLabels) {
  const ScratchFolder folder;
  const std::string path = folder.file("r.h5");
  write_small_study(path);
  std::map<std::string, MetricArray> labelled;
  const std::vector<std::string> names{"recall", "recall_layer", "scan_error_tail", "spearman"};
  for (const std::string& name : names) labelled[name] = ResultsFile(path).read(0, 0, 0, name).value();
  {
    const Edit edit(path);
    for (const std::string& name : names) edit.remove_attribute("/dumps/0/samples/s/zeta/" + name, "DIMENSION_LABELS");
    edit.remove_attribute("/dumps/0/samples/s/scores/lse", "DIMENSION_LABELS");
    edit.zeros("/dumps/0/samples/s/zeta/unheard_of", H5T_IEEE_F32LE, {3, 2, 4, 3});
  }
  const ResultsFile file(path);
  for (const std::string& name : names) {
    const MetricArray found = file.read(0, 0, 0, name).value();
    EXPECT_EQ(found.axes, labelled[name].axes) << name;
    EXPECT_EQ(found.shape, labelled[name].shape) << name;
    EXPECT_EQ(found.values, labelled[name].values) << name;
  }
  EXPECT_EQ(file.read_scores(0, 0, "lse")->axes, MetricAxes::query_head);
  EXPECT_EQ(file.read(0, 0, 0, "unheard_of")->axes, MetricAxes::query_head_setting) << "four axes end in settings";
}

// As older versions of the program wrote them.
TEST(ResultsFile, AFileWithoutSpanTokensIsRead) {
  const ScratchFolder folder;
  const std::string path = folder.file("r.h5");
  write_small_study(path);
  {
    const Edit edit(path);
    for (const char* label : {"zeta", "alpha=1"})
      for (const char* name : {"span_token_heads", "span_tokens", "token"})
        edit.remove(std::string("/dumps/0/samples/s/") + label + "/" + name);
  }
  const ResultsFile file(path);
  EXPECT_TRUE(file.study().dumps[0].samples[0].span_tokens.empty());
  EXPECT_EQ(file.read(0, 0, 0, "span_token_heads"), std::nullopt);
  EXPECT_EQ(file.read(0, 0, 0, "recall")->shape, (std::vector<std::int64_t>{3, 2, 4, 3}));
}

// The labels in the file override the axes of the program's table.
TEST(ResultsFile, LabelsGoBeforeTheRank) {
  const ScratchFolder folder;
  const std::string path = folder.file("r.h5");
  write_small_study(path);
  {
    const Edit edit(path);
    edit.zeros("/dumps/0/samples/s/zeta/of_later", H5T_IEEE_F32LE, {3, 2, 3});
    edit.texts("/dumps/0/samples/s/zeta/of_later", "DIMENSION_LABELS", {"layer", "query", "setting"});
  }
  const MetricArray found = ResultsFile(path).read(0, 0, 0, "of_later").value();
  EXPECT_EQ(found.axes, MetricAxes::query_setting);
  EXPECT_EQ(found.shape, (std::vector<std::int64_t>{3, 2, 3}));
}

TEST(ResultsFile, WhatALayerDoesNotDefineIsNaNThere) {
  const ScratchFolder folder;
  write_small_study(folder.file("r.h5"));
  const ResultsFile file(folder.file("r.h5"));
  const MetricArray spearman = file.read(0, 0, 1, "spearman").value();
  EXPECT_EQ(file.dense(0, 0, 1), (std::vector<std::uint8_t>{1, 0, 0}));
  EXPECT_EQ(file.dense(0, 0, 0), (std::vector<std::uint8_t>{0, 0, 0}));
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_TRUE(std::isnan(spearman.values[i]));
    EXPECT_FALSE(std::isnan(spearman.values[8 + i]));
  }
}

TEST(ResultsFile, LayersThatWereLeftOutAreNaNAndNotDone) {
  const ScratchFolder folder;
  const Study study = small_study();
  {
    ResultsWriter writer(folder.file("r.h5"), study);
    each_unit(study, [&](int d, int s, int layer) {
      LayerResults results = small_results(study, d, s, layer);
      if (layer == 2)
        results = {.dump = d, .sample = results.sample, .layer = layer, .done = false, .scores = {}, .selectors = {}};
      if (layer != 5) writer.add(results);  // layer 5 is never added
    });
    writer.finish("{}");
  }
  const ResultsFile file(folder.file("r.h5"));
  EXPECT_EQ(file.done(0, 0, 0), (std::vector<std::uint8_t>{1, 0, 0}));
  const MetricArray recall = file.read(0, 0, 0, "recall").value();
  for (std::size_t i = 0; i < recall.values.size(); ++i) EXPECT_EQ(std::isnan(recall.values[i]), i >= 2 * 4 * 3);
}

// Layer 0 comes first and lacks spearman, whose data set is made when layer 2 comes.
TEST(ResultsFile, AMetricThatAppearsLateIsNaNBefore) {
  const ScratchFolder folder;
  const Study study = small_study();
  {
    ResultsWriter writer(folder.file("r.h5"), study);
    writer.add(small_results(study, 0, 0, 0));
    writer.add(small_results(study, 0, 0, 2));
    writer.finish("{}");
  }
  const std::vector<float> spearman = ResultsFile(folder.file("r.h5")).read(0, 0, 1, "spearman").value().values;
  ASSERT_EQ(spearman.size(), 3u * 2 * 4);
  for (std::size_t i = 0; i < spearman.size(); ++i) EXPECT_EQ(std::isnan(spearman[i]), i < 8 || i >= 16) << i;
  EXPECT_EQ(spearman[8], value_at(0, 0, 2, 0, 0, 0, 5));
}

TEST(ResultsFile, TheOrderOfLayersChangesNoByte) {
  const ScratchFolder folder;
  const Study study = small_study();
  write_small_study(folder.file("a.h5"));
  write_small_study(folder.file("b.h5"));
  EXPECT_EQ(bytes_of_file(folder.file("a.h5")), bytes_of_file(folder.file("b.h5")));
  {
    ResultsWriter writer(folder.file("c.h5"), study);
    std::vector<LayerResults> units;
    each_unit(study, [&](int d, int s, int layer) { units.push_back(small_results(study, d, s, layer)); });
    for (auto unit = units.rbegin(); unit != units.rend(); ++unit) writer.add(*unit);
    writer.finish("{}");
  }
  const ResultsFile a(folder.file("a.h5")), c(folder.file("c.h5"));
  EXPECT_EQ(a.read(0, 0, 0, "recall")->values, c.read(0, 0, 0, "recall")->values);
}

TEST(ResultsWriter, FileAppearsOnlyWhenFinished) {
  const ScratchFolder folder;
  {
    ResultsWriter writer(folder.file("r.h5"), small_study());
    EXPECT_FALSE(std::filesystem::exists(folder.file("r.h5")));
    EXPECT_FALSE(folder.empty());
  }
  EXPECT_TRUE(folder.empty()) << "an unfinished writer leaves nothing";
}

TEST(ResultsWriter, RefusesLabelsThatMeanSomethingElse) {
  const ScratchFolder folder;
  for (const char* label : {"scores", "layers", "query_positions", "", ".", "a/b"}) {
    Study study = small_study();
    study.selectors[1].label = label;
    EXPECT_THROW(ResultsWriter(folder.file("r.h5"), study), UsageError) << label;
  }
  Study study = small_study();
  study.selectors[1].label = study.selectors[0].label;
  EXPECT_EQ(message_of<UsageError>([&] { ResultsWriter(folder.file("r.h5"), study); }),
            "the label 'zeta' is given twice");
  EXPECT_TRUE(folder.empty());
}

TEST(ResultsWriter, SaysWhyItCannotWrite) {
  const ScratchFolder folder;
  const std::string path = folder.file("no/such/folder/r.h5");
  const std::string message = message_of<OutputError>([&] { ResultsWriter(path, small_study()); });
  EXPECT_TRUE(message.starts_with(path + ": cannot be written (")) << message;
}

TEST(ResultsWriter, RefusesWhatIsNotOfTheStudy) {
  const ScratchFolder folder;
  const Study study = small_study();
  ResultsWriter writer(folder.file("r.h5"), study);
  LayerResults wrong_layer = small_results(study, 0, 0, 2);
  wrong_layer.layer = 4;
  EXPECT_THROW(writer.add(wrong_layer), std::logic_error);
  LayerResults short_metric = small_results(study, 0, 0, 2);
  short_metric.selectors[0].metrics[0].values.pop_back();
  EXPECT_THROW(writer.add(short_metric), std::logic_error);
}

}  // namespace
}  // namespace attest::test
