// The table of metrics. Also checks that a row is all a metric needs: a study computes and stores every row of the
// table that it is given.
#include "analysis/metrics/metric.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "analysis/results/axes.h"
#include "analysis/results/model_metric.h"
#include "analysis/results/results_file.h"
#include "kernels/selectors/registry.h"
#include "tests/analysis/studies.h"
#include "tests/cases.h"
#include "tests/dumps/scratch_folder.h"

namespace attest::test {
namespace {

/// Whether a results file uses the name for another data set in a selector's group.
bool is_taken(std::string_view name) {
  constexpr std::string_view kOthers[] = {"settings", "setting_labels", "lambdas", "span_tokens", "dense",  "done",
                                          "layer",    "query",          "head",    "setting",     "lambda", "token"};
  return std::ranges::find(kOthers, name) != std::end(kOthers) || name == "margin" ||
         find_model_metric(name) != nullptr;
}

TEST(Metrics, CostsAreWhatIsKeptOrRead) {
  std::set<std::string_view> costs;
  for (const Metric& metric : all_metrics())
    if (metric.info.is_cost) costs.insert(metric.info.name);
  EXPECT_EQ(costs, (std::set<std::string_view>{"keep_ratio", "io_ratio"}));
  costs.clear();
  for (const SelectorInfo* info : all_selectors()) {
    const std::string name(info->name);
    for (const MetricInfo& own : make_selector({name, name, {}})->own_metrics())
      if (own.is_cost) costs.insert(own.name);
  }
  EXPECT_EQ(costs, std::set<std::string_view>{"block_keep_ratio"});
}

TEST(Metrics, CudaCodeIsAllFunctionsOfTheDevice) {
  const auto of_rows = [](const CudaSelectorRows&, const CudaCells&) {};
  const auto of_sums = [](const CudaLayerSums&) {};
  EXPECT_FALSE((Metric{{}, {}, LayerFunctions{nullptr, nullptr, of_rows, nullptr}}.has_cuda_code()));
  EXPECT_FALSE((Metric{{}, {}, LayerFunctions{nullptr, nullptr, nullptr, of_sums}}.has_cuda_code()));
  EXPECT_TRUE((Metric{{}, {}, LayerFunctions{nullptr, nullptr, of_rows, of_sums}}.has_cuda_code()));
  EXPECT_TRUE((Metric{{}, {}, SelectorFunctions{nullptr, of_rows}}.has_cuda_code()));
}

/// `attest list`, the tables in analysis/README.md and the axis labels of a results file are made from this.
void expect_described(const MetricInfo& info) {
  EXPECT_FALSE(info.name.empty() || is_taken(info.name)) << info.name;
  EXPECT_EQ(info.name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_"), info.name.npos) << info.name;
  EXPECT_FALSE(info.unit.empty()) << info.name;
  EXPECT_FALSE(info.definition.empty()) << info.name;
  EXPECT_LT(info.range.min, info.range.max) << info.name;
  EXPECT_FALSE(info.source.empty()) << info.name;
  EXPECT_EQ(info.definition.find_first_of("|\n"), info.definition.npos) << info.name << " is a cell of a table";
  EXPECT_GE(axis_names(info.axes).size(), 3u) << info.name;
}

TEST(Metrics, EveryRowIsDescribedOnce) {
  std::set<std::string_view> names;
  for (const Metric& metric : all_metrics()) {
    EXPECT_TRUE(names.insert(metric.info.name).second) << metric.info.name;
    expect_described(metric.info);
    EXPECT_EQ(find_metric(metric.info.name), &metric);
  }
  EXPECT_EQ(find_metric("no_such_metric"), nullptr);
  EXPECT_EQ(find_metric(""), nullptr);
}

TEST(Metrics, FunctionsAreThereAndSuitTheAxes) {
  for (const Metric& metric : all_metrics()) {
    const MetricAxes axes = metric.info.axes;
    if (const auto* of_scores = std::get_if<ScoreFunctions>(&metric.functions)) {
      EXPECT_TRUE(of_scores->cpu != nullptr) << metric.info.name;
      EXPECT_EQ(axes, MetricAxes::query_head) << metric.info.name;
    } else if (const auto* of_selector = std::get_if<SelectorFunctions>(&metric.functions)) {
      EXPECT_TRUE(of_selector->cpu != nullptr) << metric.info.name;
      EXPECT_NE(axes, MetricAxes::query_setting) << metric.info.name;
    } else if (const auto* of_layer = std::get_if<LayerFunctions>(&metric.functions)) {
      EXPECT_TRUE(of_layer->of_head != nullptr && of_layer->combine != nullptr) << metric.info.name;
      EXPECT_EQ(of_layer->cuda != nullptr, of_layer->cuda_combine != nullptr) << metric.info.name;
      EXPECT_EQ(axes, MetricAxes::query_setting) << metric.info.name;
    } else {
      const auto& of_tokens = std::get<SpanTokenFunctions>(metric.functions);
      EXPECT_TRUE(of_tokens.cpu != nullptr) << metric.info.name;
      EXPECT_EQ(of_tokens.cuda != nullptr, of_tokens.cuda_combine != nullptr) << metric.info.name;
      EXPECT_TRUE(axes == MetricAxes::query_setting || axes == MetricAxes::query_setting_token) << metric.info.name;
      EXPECT_EQ(axes == MetricAxes::query_setting_token, metric.needs.few_span_tokens) << "bounds the size";
    }
    EXPECT_EQ(metric.has_cuda_code(), bool{ATTEST_HAS_CUDA}) << metric.info.name;
  }
}

TEST(Metrics, CudaCodeIsWholeOrMissing) {
  Metric metric{};
  LayerFunctions functions{.cuda = [](const CudaSelectorRows&, const CudaCells&) {}};
  metric.functions = functions;
  EXPECT_FALSE(metric.has_cuda_code()) << "nothing combines the heads";
  functions.cuda_combine = [](const CudaLayerSums&) {};
  metric.functions = functions;
  EXPECT_TRUE(metric.has_cuda_code());
}

TEST(Metrics, SummaryColumnsHaveKeysOfTheirOwn) {
  std::set<std::string_view> keys{"label", "selector", "setting", "setting_label"};  // present in every summary row
  for (const Metric& metric : all_metrics())
    for (const SummaryColumn& column : metric.summary) {
      EXPECT_TRUE(keys.insert(column.key).second) << column.key;
      EXPECT_FALSE(column.heading.empty()) << column.key;
      EXPECT_FALSE(metric.of_scores()) << column.key << ": a row of the summary is of one selector";
    }
  EXPECT_GT(keys.size(), 4u);
}

TEST(Metrics, OwnMetricNamesAreUnique) {
  std::set<std::string_view> names;
  for (const Metric& metric : all_metrics()) names.insert(metric.info.name);
  std::size_t own_metrics = 0;
  for (const SelectorInfo* info : all_selectors())
    for (const MetricInfo& own : parse_selector(std::string(info->name))->own_metrics()) {
      EXPECT_TRUE(names.insert(own.name).second) << info->name << " defines " << own.name << " again";
      expect_described(own);
      EXPECT_TRUE(own.axes == MetricAxes::query_head || own.axes == MetricAxes::query_head_setting)
          << info->name << ", " << own.name;
      ++own_metrics;
    }
  EXPECT_GE(own_metrics, 4u);  // ffd's at least
}

// -- metrics added by this test

double visible_keys(const ExactRow& row) { return static_cast<double>(row.scores.size()); }

double tokens_kept(const SelectorRow& row, int setting) {
  return static_cast<double>(std::ranges::count_if(row.levels, [&](Level level) { return level <= setting; }));
}

void kept_tokens(const SelectorRow& row, std::span<double> out) {
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = tokens_kept(row, static_cast<int>(i));
}

void covered_tokens(const SelectorRow& row, std::span<double> out) {
  ASSERT_EQ(out.size(), 1u);
  out[0] = static_cast<double>(row.estimate.size());
}

void estimate_above(const SelectorRow& row, std::span<double> out) {
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<double>(std::ranges::count_if(row.estimate, [&](double s) { return s > row.lambdas[i]; }));
}

HeadSums kept_of_head(const SelectorRow& row, int setting) { return {tokens_kept(row, setting), 1, 0}; }
double kept_per_head(const HeadSums& total) { return total[0] / total[1]; }

/// One metric of each kind. None is in the program's table or has CUDA code.
const std::vector<Metric>& test_metrics() {
  static const std::vector<Metric> rows{
      {{"visible_keys", MetricAxes::query_head, "tokens", Better::neither, "L"}, {}, ScoreFunctions{visible_keys}},
      {{"kept_tokens", MetricAxes::query_head_setting, "tokens", Better::lower, "tokens kept for the head"},
       {},
       SelectorFunctions{kept_tokens}},
      {{"covered_tokens", MetricAxes::query_head, "tokens", Better::neither, "tokens that have an estimate"},
       {.estimate = true},
       SelectorFunctions{covered_tokens}},
      {{"estimate_above", MetricAxes::query_head_lambda, "tokens", Better::neither, "estimates above lambda"},
       {.estimate = true},
       SelectorFunctions{estimate_above}},
      {{"kept_per_head", MetricAxes::query_setting, "tokens", Better::lower, "mean over the heads of the layer"},
       {},
       LayerFunctions{kept_of_head, kept_per_head}}};
  return rows;
}

/// As many settings as query heads, so that the shape [Y, N, 4] is ambiguous: heads or settings.
constexpr int kHeads = 4;
const std::vector<Setting> kGrid{{5}, {1}, {std::numeric_limits<double>::infinity()}, {3}};
const std::vector<std::int64_t> kPositions{130, 383};

class AddedMetrics : public ::testing::Test {
 protected:
  AddedMetrics() {
    study_ = study_of({study_selector("topdelta", kGrid), study_selector("ffd:block=64", kGrid)});
    study_.lambdas = {0.5, 1};
    const AttentionLayer layer = make_layer({"", 2, 2, 64, 64, ElementType::float32, kPositions});
    study_.dumps = {{"a.h5", "m", 6, layer.shape, {{"s", "t", layer.num_tokens, {layer.layer}, kPositions, false}}}};
    known_ = make_cpu_layer_study(study_, 2)->run(layer);
    std::vector<Metric> table(all_metrics().begin(), all_metrics().end());
    table.insert(table.end(), test_metrics().begin(), test_metrics().end());
    results_ = make_cpu_layer_study(study_, 2, table)->run(layer);
    results_.sample = "s";
  }

  static std::vector<std::string> names_of(const std::vector<MetricValues>& metrics) {
    std::vector<std::string> names;
    for (const MetricValues& m : metrics) names.push_back(m.name);
    return names;
  }

  /// Expects `more` to be `less` with the metrics `added` inserted after the first `known`.
  static void expect_added(const std::vector<MetricValues>& less, const std::vector<MetricValues>& more,
                           std::size_t known, const std::vector<std::string>& added) {
    std::vector<std::string> expected = names_of(less);
    expected.insert(expected.begin() + static_cast<std::ptrdiff_t>(known), added.begin(), added.end());
    EXPECT_EQ(names_of(more), expected);
    for (const MetricValues& m : less) EXPECT_TRUE(same_values(metric(more, m.name).values, m.values)) << m.name;
  }

  /// Number of kept tokens, from the study's own keep_ratio: [N, Hq, S].
  std::vector<float> tokens_of_keep_ratio(std::size_t selector) const {
    std::vector<float> tokens = metric(results_.selectors[selector].metrics, "keep_ratio").values;
    for (std::size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = std::round(tokens[i] * static_cast<float>(kPositions[i / (kHeads * kGrid.size())] + 1));
    return tokens;
  }

  Study study_;
  LayerResults known_, results_;
};

TEST_F(AddedMetrics, LeaveOtherMetricsUnchanged) {
  expect_added(known_.scores, results_.scores, known_.scores.size(), {"visible_keys"});
  const std::vector<MetricValues>&topdelta = known_.selectors[0].metrics, &ffd = known_.selectors[1].metrics;
  expect_added(topdelta, results_.selectors[0].metrics, topdelta.size(), {"kept_tokens", "kept_per_head"});
  expect_added(ffd, results_.selectors[1].metrics, ffd.size() - 4,  // before ffd's own four metrics
               {"kept_tokens", "covered_tokens", "estimate_above", "kept_per_head"});
}

TEST_F(AddedMetrics, HaveTheRightValues) {
  const MetricValues& visible = metric(results_.scores, "visible_keys");
  EXPECT_EQ(visible.values, (std::vector<float>{131, 131, 131, 131, 384, 384, 384, 384}));
  for (std::size_t s = 0; s < 2; ++s) {
    const std::vector<MetricValues>& found = results_.selectors[s].metrics;
    const std::vector<float> tokens = tokens_of_keep_ratio(s);
    EXPECT_EQ(metric(found, "kept_tokens").axes, MetricAxes::query_head_setting);
    EXPECT_EQ(metric(found, "kept_tokens").values, tokens);
    const MetricValues& per_head = metric(found, "kept_per_head");
    EXPECT_EQ(per_head.axes, MetricAxes::query_setting);
    ASSERT_EQ(per_head.values.size(), kPositions.size() * kGrid.size());
    for (std::size_t n = 0; n < kPositions.size(); ++n)
      for (std::size_t i = 0; i < kGrid.size(); ++i) {
        float sum = 0;
        for (std::size_t h = 0; h < kHeads; ++h) sum += tokens[(n * kHeads + h) * kGrid.size() + i];
        EXPECT_EQ(per_head.values[n * kGrid.size() + i], sum / kHeads) << "query " << n << ", setting " << i;
      }
    EXPECT_NE(per_head.values[0], per_head.values[1]) << "settings that keep different sets";
  }
  const std::vector<MetricValues>& ffd = results_.selectors[1].metrics;
  EXPECT_EQ(metric(ffd, "covered_tokens").values, (std::vector<float>{128, 128, 128, 128, 384, 384, 384, 384}));
  EXPECT_EQ(metric(ffd, "estimate_above").values.size(), 2u * kHeads * 2);
}

TEST_F(AddedMetrics, KeepTheirAxesInAResultsFile) {
  const ScratchFolder folder;
  {
    ResultsWriter writer(folder.file("r.h5"), study_);
    writer.add(results_);
    writer.finish("{}");
  }
  const ResultsFile file(folder.file("r.h5"));
  const std::vector<std::int64_t> y_n_4{1, 2, 4}, y_n_4_4{1, 2, 4, 4}, y_n_4_2{1, 2, 4, 2};
  const auto expect_read = [&](const std::optional<MetricArray>& found, const MetricValues& written, MetricAxes axes,
                               const std::vector<std::int64_t>& shape) {
    ASSERT_TRUE(found) << written.name;
    EXPECT_EQ(find_metric(written.name), nullptr) << "the reader knows it from the file alone";
    EXPECT_EQ(found->axes, axes) << written.name;
    EXPECT_EQ(found->shape, shape) << written.name;
    EXPECT_EQ(found->values, written.values) << written.name;
  };
  expect_read(file.read_scores(0, 0, "visible_keys"), metric(results_.scores, "visible_keys"), MetricAxes::query_head,
              y_n_4);
  const std::vector<MetricValues>& ffd = results_.selectors[1].metrics;
  const auto expect_of_ffd = [&](const char* name, MetricAxes axes, const std::vector<std::int64_t>& shape) {
    expect_read(file.read(0, 0, 1, name), metric(ffd, name), axes, shape);
  };
  expect_of_ffd("kept_tokens", MetricAxes::query_head_setting, y_n_4_4);
  expect_of_ffd("covered_tokens", MetricAxes::query_head, y_n_4);
  expect_of_ffd("estimate_above", MetricAxes::query_head_lambda, y_n_4_2);
  expect_of_ffd("kept_per_head", MetricAxes::query_setting, y_n_4);
  EXPECT_EQ(file.read(0, 0, 0, "covered_tokens"), std::nullopt) << "topdelta has no estimate";
}

}  // namespace
}  // namespace attest::test
