// Metrics of the exact scores, with and without learned sinks and spans, and the row maxima and weights that other
// metrics use: the device against the definitions.
#include <gtest/gtest.h>

#include <map>

#include "analysis/metrics/rows_cuda.h"
#include "analysis/metrics/score_statistics.h"
#include "tests/analysis/plain_metrics.h"
#include "tests/kernels/device_cases.h"
#include "tests/kernels/selectors/device_chunk.h"
#include "tests/near.h"

namespace attest::test {
namespace {

// Relative to max(1, |value|): each weight is a float32 exponential with an error of about 2^-22; results are float32.
constexpr double kTolerance = 1e-5;

// Disjoint, as the device expects them: at the first tokens, in the middle, and past the end of most layers.
const std::vector<int2> kSpans{{0, 2}, {5, 9}, {130, 200}, {4000, 4001}};

struct Variant {
  bool spans, sinks;
};

/// The layer of the case, with sinks from far below to far above the scores.
AttentionLayer layer_of(const Case& c, const Variant& variant) {
  AttentionLayer layer = make_layer(c);
  for (int h = 0; variant.sinks && h < layer.shape.num_query_heads; ++h)
    layer.sinks.push_back(-15.0f + 10 * static_cast<float>(h % 5));
  return layer;
}

/// Every metric of a row that the variant has.
Metrics plain_statistics(const DeviceChunk& on, std::size_t r, const Variant& variant) {
  const Row scores(on.scores[r].begin(), on.scores[r].end());
  Kept spans(variant.spans ? scores.size() : 0, 0);
  const int first_key = on.on.origins[static_cast<std::size_t>(on.on.origin[r])].first_key;
  for (std::size_t j = 0; j < spans.size(); ++j)
    for (const int2& span : kSpans) {
      const int token = first_key + static_cast<int>(j);
      if (token >= span.x && token < span.y) spans[j] = 1;
    }
  return plain_score_metrics(scores, spans, variant.sinks ? static_cast<double>(on.on.sink[r]) : kNoSink);
}

void expect_statistics(const Case& c, const Variant& variant) {
  DeviceChunk on(layer_of(c, variant));
  const auto rows = on.scores.size();
  StageClock clock;
  CudaExactRows exact;
  exact.chunk = &on.chunk;
  exact.clock = &clock;
  exact.statistics = {on.gpu.arena.take<float>(rows), on.gpu.arena.take<double>(rows)};
  if (variant.spans) exact.spans = {on.gpu.upload(kSpans), static_cast<int>(kSpans.size())};
  std::vector<CudaCells::Array> arrays;
  for (const char* name : {"lse", "top1_top2_gap", "score_std", "entropy", "span_mass", "sink_mass"}) {
    const bool there =
        (variant.spans || std::string(name) != "span_mass") && (variant.sinks || std::string(name) != "sink_mass");
    if (there) arrays.push_back({name, on.gpu.arena.take<float>(on.num_cells())});
  }
  cuda_score_statistics(exact, CudaCells(arrays));
  std::map<std::string, std::vector<float>> found;
  for (const CudaCells::Array& array : arrays) found[std::string(array.metric)] = on.download_cells(array.cells);
  const std::vector<float> max = on.gpu.download(exact.statistics.max, rows);
  const std::vector<double> weight = on.gpu.download(exact.statistics.weight, rows);
  for (std::size_t r = 0; r < rows; ++r) {
    const Metrics plain = plain_statistics(on, r, variant);
    ASSERT_EQ(plain.size(), arrays.size());
    for (const auto& [name, value] : plain)
      EXPECT_TRUE(near_metric(found.at(name)[r], value, kTolerance)) << name << " of row " << r;
    EXPECT_EQ(max[r], *std::max_element(on.scores[r].begin(), on.scores[r].end())) << "row " << r;
    double sum = 0;  // over the keys only, without the sink
    for (float s : on.scores[r]) sum += std::exp(static_cast<double>(s) - static_cast<double>(max[r]));
    EXPECT_TRUE(relatively_near(weight[r], sum, kTolerance)) << "weight of row " << r;
  }
}

class ScoreStatisticsCuda : public OnGpuWith<Case> {};

TEST_P(ScoreStatisticsCuda, OfKeysAlone) { expect_statistics(GetParam(), {.spans = false, .sinks = false}); }
TEST_P(ScoreStatisticsCuda, WithSpans) { expect_statistics(GetParam(), {.spans = true, .sinks = false}); }
TEST_P(ScoreStatisticsCuda, WithLearnedSinks) { expect_statistics(GetParam(), {.spans = false, .sinks = true}); }
TEST_P(ScoreStatisticsCuda, WithBoth) { expect_statistics(GetParam(), {.spans = true, .sinks = true}); }

INSTANTIATE_TEST_SUITE_P(Cases, ScoreStatisticsCuda, testing::ValuesIn(device_cases()), name_of_case);

}  // namespace
}  // namespace attest::test
