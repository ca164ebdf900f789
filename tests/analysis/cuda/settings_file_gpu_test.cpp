// The study with a settings_file on a CUDA device: against the CPU; against studies of the whole layer at one delta;
// cut into chunks.
#include <gtest/gtest.h>

#include "analysis/layer/layer_study.h"
#include "dumps/base/json.h"
#include "kernels/selectors/settings_file.h"
#include "tests/analysis/cuda/comparison.h"
#include "tests/analysis/cuda/cuda_study_cases.h"
#include "tests/dumps/scratch_folder.h"
#include "tests/near.h"

namespace attest::cuda_test {
namespace {

constexpr int kLayer = 3;  // of make_layer()

const std::vector<std::string> kDeltaSelectors = {"ffd",
                                                  "ffd:gqa=per_head,sub_block=32",
                                                  "ffd:delta_unit=log2,scale=sequence",
                                                  "ffd:delta_unit=unscaled,residual=none",
                                                  "topdelta",
                                                  "topdelta:gqa=union,granularity=block",
                                                  "skip_softmax",
                                                  "skip_softmax:tile=32,gqa=per_head,splits=2"};

/// Deltas differ from head to head, and some heads are dense, in runs of one and two.
HeadSettings settings_for(const Case& c) {
  HeadSettings settings{.fallback = {2, false}};
  for (int h = 0; h < c.kv_heads; ++h)
    settings.layers[kLayer].kv_heads[h] = {.value = h % 5 < 3 ? 0.5 * h : 0, .dense = h % 5 >= 3};
  if (c.kv_heads == 2) settings.layers[kLayer].kv_heads[0].dense = true;
  return settings;
}

Study study_with(const ScratchFolder& folder, const HeadSettings& settings, const std::vector<Setting>& grid) {
  Json document = {{"format", kRecommendationFormat}, {"format_version", kRecommendationVersion}, {"setting", "delta"}};
  document.update(head_settings_json(settings));
  const std::string path = folder.write("rec.json", document.dump());
  std::vector<StudySelector> selectors;
  for (const std::string& text : kDeltaSelectors)
    selectors.push_back(
        test::study_selector(text + (text.find(':') == std::string::npos ? ":" : ",") + "settings_file=" + path, grid));
  selectors.push_back(test::study_selector("ffd", grid));  // shares chunks with the others
  return test::study_of(std::move(selectors));
}

const std::vector<Setting> kGrid{{1}, {0}, {4}, {INFINITY}};

class CudaSettingsFile : public testing::TestWithParam<Case> {};

TEST_P(CudaSettingsFile, AgreesWithTheCpu) {
  SKIP_WITHOUT_GPU();
  const Case& c = GetParam();
  const ScratchFolder folder;
  const AttentionLayer layer = make_layer(c);
  const Study study = study_with(folder, settings_for(c), kGrid);
  const LayerResults expected = make_cpu_layer_study(study, 2)->run(layer),
                     got = make_cuda_layer_study(study, 0)->run(layer);
  Comparison comparison(c.data == Data::huge ? kHugeTolerance : kTolerance, c.query_heads / c.kv_heads);
  for (std::size_t s = 0; s < expected.selectors.size(); ++s) {
    EXPECT_EQ(expected.selectors[s].dense, got.selectors[s].dense);
    comparison.add(study.selectors[s].label, kGrid.size(), expected.selectors[s].metrics, got.selectors[s].metrics);
  }
  comparison.finish();
}

// A file that is the same delta everywhere is that delta, bit for bit.
TEST_P(CudaSettingsFile, OneDefaultIsOneDelta) {
  SKIP_WITHOUT_GPU();
  const ScratchFolder folder;
  const AttentionLayer layer = make_layer(GetParam());
  const Study with = study_with(folder, {.fallback = {1.5, false}}, {{3}, {0}});
  std::vector<StudySelector> plain;
  for (const std::string& text : kDeltaSelectors) plain.push_back(test::study_selector(text, {{4.5}, {1.5}}));
  plain.push_back(test::study_selector("ffd", {{3}, {0}}));
  expect_same_bits(make_cuda_layer_study(with, 0)->run(layer),
                   make_cuda_layer_study(test::study_of(plain), 0)->run(layer));
}

TEST_P(CudaSettingsFile, BitsRepeat) {
  SKIP_WITHOUT_GPU();
  const ScratchFolder folder;
  const AttentionLayer layer = make_layer(GetParam());
  const Study study = study_with(folder, settings_for(GetParam()), kGrid);
  const std::unique_ptr<LayerStudy> cuda = make_cuda_layer_study(study, 0);
  const LayerResults first = cuda->run(layer);
  expect_same_bits(first, cuda->run(layer));
}

constexpr auto kBf16 = ElementType::bfloat16, kFp16 = ElementType::float16, kF32 = ElementType::float32;
INSTANTIATE_TEST_SUITE_P(
    Cases, CudaSettingsFile,
    testing::Values(Case{"groups", kBf16, 32, 8, 128, 128, 900, {300, 640, 899}},
                    Case{"own_heads", kF32, 7, 7, 77, 80, 300, {15, 16, 299}, Data::peaked, 0, 0, true, true},
                    Case{"window", kBf16, 8, 4, 256, 256, 900, {100, 611, 612, 899}, Data::peaked, 30, 333, true},
                    Case{"two_heads", kFp16, 6, 2, 96, 48, 777, {300, 776}},
                    Case{"short", kFp16, 12, 6, 64, 64, 140, {0, 1, 127, 128, 139}, Data::peaked, 0, 0, true},
                    Case{"long", kBf16, 8, 4, 128, 128, 9001, {8191, 9000}},
                    Case{"huge", kF32, 8, 4, 64, 64, 600, {599}, Data::huge}),
    [](const auto& info) { return std::string(info.param.name); });

// A dense head has the cells of `exact`: at one setting the same bits.
TEST(CudaSettingsFileStudy, DenseHeadsAreExact) {
  SKIP_WITHOUT_GPU();
  const Case c{"", kBf16, 8, 4, 128, 128, 900, {640, 899}};
  const ScratchFolder folder;
  const AttentionLayer layer = make_layer(c);
  HeadSettings settings{.fallback = {1, false}};
  settings.layers[kLayer].kv_heads[2] = {.value = 0, .dense = true};
  Study study = study_with(folder, settings, {{0}});
  study.selectors.push_back(test::study_selector("exact", {}));
  const LayerResults found = make_cuda_layer_study(study, 0)->run(layer);
  const std::vector<MetricValues>& exact = found.selectors.back().metrics;
  for (std::size_t s = 0; s < kDeltaSelectors.size(); ++s)
    for (const MetricValues& m : found.selectors[s].metrics) {
      if (m.axes == MetricAxes::query_setting) continue;
      const auto other = std::ranges::find(exact, m.name, &MetricValues::name);
      const std::size_t per_row = m.values.size() / (2 * 8);
      for (std::size_t cell = 0; cell < m.values.size(); ++cell) {
        const std::size_t head = cell / per_row % 8;
        if (head / 2 != 2) continue;
        const float expected = other == exact.end() ? NAN : other->values[cell];
        EXPECT_TRUE(test::near_metric(m.values[cell], expected, 0)) << kDeltaSelectors[s] << ", " << m.name;
      }
    }
}

TEST(CudaSettingsFileStudy, SmallMemoryLimitGivesBitIdenticalResults) {
  SKIP_WITHOUT_GPU();
  const Case c{"", kBf16, 32, 8, 128, 128, 6000, {5000, 5500, 5999}};
  const ScratchFolder folder;
  const AttentionLayer layer = make_layer(c);
  const Study study = study_with(folder, settings_for(c), kGrid);
  expect_same_bits(make_cuda_layer_study(study, 0)->run(layer),
                   make_cuda_layer_study(study, 0, {.bytes = std::uint64_t{48} << 20})->run(layer));
}

}  // namespace
}  // namespace attest::cuda_test
