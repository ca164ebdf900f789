// Result arrays of a layer: layout, download from the device, and metrics combined over heads.
#include <gtest/gtest.h>

#include "analysis/cuda/cuda_results.h"
#include "tests/analysis/studies.h"
#include "tests/kernels/device_rows.h"

namespace attest::test {
namespace {

Study small_study() {
  return study_of({study_selector("exact", {}), study_selector("ffd", {{1}, {5}, {3}}),
                   study_selector("topk", {{64}, {12.5, true}})});
}

AttentionLayer small_layer(bool spans_and_sinks) {
  AttentionLayer layer = make_layer({"", 2, 3, 64, 48, ElementType::bfloat16, {0, 100, 130}});
  if (!spans_and_sinks) return layer;
  layer.spans = {{3, 9}};
  layer.sinks.assign(6, 1.5f);
  return layer;
}

/// Values for the cells of an array, different from those of every other array.
std::vector<float> numbers(const ResultArray& array) {
  std::vector<float> values(array.size);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(array.begin + i) / 4;
  return values;
}

void send(const std::vector<ResultArray>& arrays, const CudaCells& cells, const Gpu& gpu) {
  for (const ResultArray& array : arrays) {
    ASSERT_NE(cells.of(array.info.name), nullptr) << array.info.name;
    const std::vector<float> values = numbers(array);
    ATTEST_CUDA(cudaMemcpyAsync(cells.of(array.info.name), values.data(), values.size() * sizeof(float),
                                cudaMemcpyHostToDevice, gpu.stream));
    gpu.stream.synchronize();
  }
}

void expect_numbers(const std::vector<ResultArray>& arrays, const std::vector<MetricValues>& found) {
  ASSERT_EQ(found.size(), arrays.size());
  for (std::size_t a = 0; a < arrays.size(); ++a) {
    EXPECT_EQ(found[a].name, arrays[a].info.name);
    EXPECT_EQ(found[a].axes, arrays[a].info.axes);
    if (found[a].name == "recall_layer") continue;                                      // computed from the heads' sums
    if (found[a].name == "span_lost" || found[a].name == "span_token_heads") continue;  // and these from their bits
    EXPECT_EQ(found[a].values, numbers(arrays[a])) << found[a].name;
  }
}

class CudaResultsTest : public OnGpu {};

TEST_F(CudaResultsTest, DownloadsArraysToTheirCells) {
  Gpu gpu;
  const Study study = small_study();
  CudaResults results;  // reused for layers with and without spans and sinks
  for (bool spans_and_sinks : {false, true, false}) {
    const AttentionLayer layer = small_layer(spans_and_sinks);
    results.begin(study, all_metrics(), layer, gpu.stream);
    const LayerResultsLayout layout = results.layout();
    send(layout.scores, results.score_cells(), gpu);
    EXPECT_EQ(results.score_cells().of("sink_mass") != nullptr, spans_and_sinks);
    EXPECT_EQ(results.score_cells().of("recall"), nullptr) << "of a selector alone";
    for (std::size_t s = 0; s < layout.selectors.size(); ++s) {
      const CudaCells cells = results.selector_cells(s);
      send(layout.selectors[s].arrays, cells, gpu);
      EXPECT_EQ(cells.of("span_keep") != nullptr, spans_and_sinks);
      EXPECT_EQ(cells.span_bits().words, spans_and_sinks ? 1 : 0);
      EXPECT_EQ(cells.of("spearman") != nullptr, study.selectors[s].selector->has_estimate());
      EXPECT_EQ(cells.head_sums_of("recall"), nullptr);
      ASSERT_NE(cells.head_sums_of("recall_layer"), nullptr);
      const std::size_t sums = 3 * 6 * layout.selectors[s].num_settings;
      ATTEST_CUDA(cudaMemsetAsync(cells.head_sums_of("recall_layer"), 0, sums * sizeof(HeadSums), gpu.stream));
    }
    results.enqueue_finish(3, 6, gpu.stream);
    gpu.stream.synchronize();
    const LayerResults found = results.take();
    EXPECT_EQ(found.layer, layer.layer);
    expect_numbers(layout.scores, found.scores);
    ASSERT_EQ(found.selectors.size(), layout.selectors.size());
    for (std::size_t s = 0; s < layout.selectors.size(); ++s) {
      EXPECT_EQ(found.selectors[s].dense, layout.selectors[s].dense);
      expect_numbers(layout.selectors[s].arrays, found.selectors[s].metrics);
    }
  }
}

TEST_F(CudaResultsTest, AreUndefinedWhereNothingWasWritten) {
  Gpu gpu;
  // Without the layer metrics: they are computed from head sums and bits, which this test does not write.
  std::vector<Metric> metrics;
  for (const Metric& metric : all_metrics())
    if (!std::holds_alternative<LayerFunctions>(metric.functions) &&
        !std::holds_alternative<SpanTokenFunctions>(metric.functions))
      metrics.push_back(metric);
  const Study study = small_study();
  const AttentionLayer layer = small_layer(true);
  CudaResults results;
  for (int round = 0; round < 2; ++round) {  // the second round must not see values of the first
    results.begin(study, metrics, layer, gpu.stream);
    const LayerResultsLayout layout = results.layout();
    if (round == 0) send(layout.scores, results.score_cells(), gpu);
    results.enqueue_finish(3, 6, gpu.stream);
    gpu.stream.synchronize();
    const LayerResults found = results.take();
    for (const MetricValues& metric : found.scores)
      for (float x : metric.values) ASSERT_EQ(std::isnan(x), round == 1) << metric.name;
    for (const SelectorLayerResults& selector : found.selectors)
      for (const MetricValues& metric : selector.metrics)
        for (float x : metric.values) ASSERT_TRUE(std::isnan(x)) << metric.name;
  }
}

// The device adds doubles in ascending order of heads and rounds the result to float32.
TEST_F(CudaResultsTest, CombineTheHeadsOfALayer) {
  constexpr int kQueries = 3, kHeads = 6;
  Gpu gpu;
  const Study study = small_study();
  const AttentionLayer layer = small_layer(false);
  CudaResults results;
  results.begin(study, all_metrics(), layer, gpu.stream);
  Random random(4);
  std::vector<std::vector<HeadSums>> sums;
  for (std::size_t s = 0; s < study.selectors.size(); ++s) {
    sums.emplace_back(kQueries * kHeads * study.selectors[s].grid.size());
    for (HeadSums& head : sums.back()) head = {random.normal(), random.uniform(1, 2), random.uniform(1, 2)};
    ATTEST_CUDA(cudaMemcpyAsync(results.selector_cells(s).head_sums_of("recall_layer"), sums[s].data(),
                                sums[s].size() * sizeof(HeadSums), cudaMemcpyHostToDevice, gpu.stream));
  }
  results.enqueue_finish(kQueries, kHeads, gpu.stream);
  gpu.stream.synchronize();
  const LayerResults found = results.take();
  for (std::size_t s = 0; s < sums.size(); ++s) {
    const MetricValues recall = metric(found.selectors[s].metrics, "recall_layer");
    const std::size_t settings = study.selectors[s].grid.size();
    ASSERT_EQ(recall.values.size(), kQueries * settings);
    for (std::size_t cell = 0; cell < recall.values.size(); ++cell) {
      double total[3] = {};
      for (std::size_t h = 0; h < kHeads; ++h)
        for (std::size_t t = 0; t < 3; ++t)
          total[t] += sums[s][(cell / settings * kHeads + h) * settings + cell % settings][t];
      EXPECT_EQ(recall.values[cell], static_cast<float>(total[0] / (std::sqrt(total[1]) * std::sqrt(total[2]))));
    }
  }
}

}  // namespace
}  // namespace attest::test
