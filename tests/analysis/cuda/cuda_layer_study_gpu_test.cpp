// The study on a CUDA device against the study on the CPU: every selector and metric on every case. Also what only the
// device has: memory limits, overlapping layers, rejected inputs.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <iostream>
#include <thread>

#include "analysis/layer/layer_study.h"
#include "dumps/base/error.h"
#include "kernels/selectors/registry.h"
#include "tests/analysis/cuda/comparison.h"
#include "tests/analysis/cuda/cuda_study_cases.h"
#include "tests/message_of.h"

namespace attest {
extern const SelectorInfo template_info;
}

namespace attest::cuda_test {
namespace {

void expect_same(const Study& study, const Case& c) {
  const AttentionLayer layer = make_layer(c);
  const LayerResults expected =
      make_cpu_layer_study(study, static_cast<int>(std::thread::hardware_concurrency()))->run(layer);
  const LayerResults got = make_cuda_layer_study(study, 0)->run(layer);
  Comparison comparison(c.data == Data::huge ? kHugeTolerance : kTolerance, c.query_heads / c.kv_heads);
  comparison.add("scores", 1, expected.scores, got.scores);
  ASSERT_EQ(expected.selectors.size(), got.selectors.size());
  for (std::size_t s = 0; s < expected.selectors.size(); ++s) {
    EXPECT_EQ(expected.selectors[s].dense, got.selectors[s].dense);
    comparison.add(study.selectors[s].label, study.selectors[s].grid.size(), expected.selectors[s].metrics,
                   got.selectors[s].metrics);
  }
  comparison.finish();
  std::cout << comparison.text() << std::endl;
}

class CudaLayerStudyTest : public testing::TestWithParam<Case> {};

TEST_P(CudaLayerStudyTest, MethodsAgreeWithTheCpu) {
  SKIP_WITHOUT_GPU();
  expect_same(all_selectors_study(GetParam()), GetParam());
}

TEST_P(CudaLayerStudyTest, VariantsAgreeWithTheCpu) {
  SKIP_WITHOUT_GPU();
  expect_same(study_of(kVariants), GetParam());
}

TEST_P(CudaLayerStudyTest, DoubleSparsityAgreesWithTheCpu) {
  SKIP_WITHOUT_GPU();
  expect_same(double_sparsity(GetParam()), GetParam());
}

TEST_P(CudaLayerStudyTest, KvCacheAgreesWithTheCpu) {
  SKIP_WITHOUT_GPU();
  expect_same(kv_cache_study(GetParam()), GetParam());
}

TEST_P(CudaLayerStudyTest, BitsRepeat) {
  SKIP_WITHOUT_GPU();
  const AttentionLayer layer = make_layer(GetParam());
  for (const Study& tried :
       {all_selectors_study(GetParam()), double_sparsity(GetParam()), kv_cache_study(GetParam())}) {
    std::unique_ptr<LayerStudy> study = make_cuda_layer_study(tried, 0);
    const LayerResults first = study->run(layer);
    expect_same_bits(first, study->run(layer));
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, CudaLayerStudyTest, testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(CudaLayerStudy, SmallMemoryLimitGivesBitIdenticalResults) {
  SKIP_WITHOUT_GPU();
  const Case c{"", bf16, 32, 8, 128, 128, 6000, {5000, 5500, 5999}};
  const AttentionLayer layer = make_layer(c);
  std::size_t free = 0, total = 0;
  ASSERT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  const double share = static_cast<double>(std::size_t{48} << 20) / static_cast<double>(total);
  for (const Study& tried : {all_selectors_study(c), double_sparsity(c), kv_cache_study(c)})
    expect_same_bits(make_cuda_layer_study(tried, 0)->run(layer),
                     make_cuda_layer_study(tried, 0, {.share = share})->run(layer));
}

/// Scales of the whole layer, where it is on the device as a whole and where its KV heads come one after the other; and
/// scales of the KV heads of a range that does not begin with the first.
TEST(CudaLayerStudy, ScalesOfALayerThatIsCut) {
  SKIP_WITHOUT_GPU();
  const Case c{"", bf16, 16, 8, 64, 64, 3000, {1000, 2999}};
  AttentionLayer layer = make_layer(c);
  const Study study =
      study_of({"kv_cache:k=fp8_e4m3,k_scale=amax_head,v=nvfp4", "kv_cache:k=nvfp4,v=fp8_e5m2,v_scale=amax",
                "kv_cache:k=q4_0,v=fp8_e4m3,v_scale=amax_head"});
  const std::size_t head = layer.k.size() / 8;
  std::vector<float> values(head / 2);
  for (std::size_t h = 0; h < 8; ++h) {  // every head has another largest number
    convert_to_float(bf16, layer.k.data() + h * head, values.size(), values.data());
    for (float& x : values) x *= static_cast<float>(h + 1) / 4;
    convert_from_float(bf16, values.data(), values.size(), layer.k.data() + h * head);
  }
  const LayerResults expected = make_cpu_layer_study(study, 2)->run(layer);
  const LayerResults whole = make_cuda_layer_study(study, 0)->run(layer);
  // Two slots of three KV heads, of 768 KB each, and what a chunk takes.
  const LayerResults cut = make_cuda_layer_study(study, 0, {.bytes = 10u << 20})->run(layer);
  expect_same_bits(whole, cut);
  Comparison comparison(kTolerance, 2);
  for (std::size_t s = 0; s < study.selectors.size(); ++s)
    comparison.add(study.selectors[s].label, 1, expected.selectors[s].metrics, whole.selectors[s].metrics);
  comparison.finish();
}

TEST(CudaLayerStudy, LayersOverlap) {
  SKIP_WITHOUT_GPU();
  const Case c{"", bf16, 8, 2, 128, 128, 3000, {2000, 2999}}, other{"", f32, 4, 2, 64, 64, 500, {499}};
  std::vector<AttentionLayer> layers;
  Study tried = all_selectors_study(c);
  for (int i = 0; i < 6; ++i) {
    layers.push_back(make_layer(i % 3 == 1 ? other : c, i));
    // all_selectors_study() has calibrated layer 3 already.
    if (i != 3) test::calibrate_all(tried.selectors, sample_for(i % 3 == 1 ? other : c, i));
  }
  std::unique_ptr<LayerStudy> study = make_cuda_layer_study(tried, 0), alone = make_cuda_layer_study(tried, 0);
  std::size_t collected = 0;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    study->submit(layers[i]);
    if (static_cast<int>(i - collected) + 1 < study->max_submitted()) continue;
    expect_same_bits(study->collect(), alone->run(layers[collected]));
    ++collected;
  }
  for (; collected < layers.size(); ++collected) expect_same_bits(study->collect(), alone->run(layers[collected]));
  EXPECT_FALSE(study->stage_times().empty());
}

TEST(CudaLayerStudy, ManySettings) {
  SKIP_WITHOUT_GPU();
  const Case c{"", bf16, 8, 2, 128, 128, 2100, {1500, 2099}};
  std::vector<Setting> ascending_deltas, descending_deltas, many_budgets;
  for (int i = 0; i < 150; ++i) {
    ascending_deltas.push_back({0.1 * i});
    descending_deltas.push_back({15 - 0.1 * i});
    many_budgets.push_back({static_cast<double>(i * 14 + 1)});
  }
  Study study =
      test::study_of({test::study_selector("topdelta", ascending_deltas),
                      test::study_selector("ffd", descending_deltas), test::study_selector("topk", many_budgets)});
  expect_same(study, c);
}

TEST(CudaLayerStudy, TooLittleMemoryGivesAClearError) {
  SKIP_WITHOUT_GPU();
  const Case c{"", bf16, 8, 2, 128, 128, 3000, {2999}};
  const AttentionLayer layer = make_layer(c);
  const Study study = all_selectors_study(c);
  for (const auto& [bytes, what] : {std::pair(std::uint64_t{1000000}, "two buffers for one KV head's keys and values"),
                                    std::pair(std::uint64_t{3150000}, "that it may have are taken")}) {
    std::unique_ptr<LayerStudy> starved = make_cuda_layer_study(study, 0, {.bytes = bytes});
    try {
      starved->run(layer);
      ADD_FAILURE() << "no error with " << bytes << " bytes";
    } catch (const DeviceError& error) {
      EXPECT_NE(std::string(error.what()).find(what), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find(": raise --device-memory"), std::string::npos) << error.what();
    }
  }
  EXPECT_NO_THROW(make_cuda_layer_study(study, 0)->run(layer));
}

/// A study can be made before its selectors are calibrated.
TEST(CudaLayerStudy, UsesCalibrationDoneAfterConstruction) {
  SKIP_WITHOUT_GPU();
  const Case c{"", bf16, 8, 2, 64, 64, 300, {299}};
  const AttentionLayer layer = make_layer(c);
  const Study study = test::study_of({test::study_selector("double_sparsity:calibrate=other", budgets())});
  const std::unique_ptr<LayerStudy> cuda = make_cuda_layer_study(study, 0), cpu = make_cpu_layer_study(study, 1);
  EXPECT_THROW(cuda->run(layer), InputError);
  test::calibrate_all(study.selectors, layer);
  const LayerResults expected = cpu->run(layer), got = cuda->run(layer);
  Comparison comparison(kTolerance, c.query_heads / c.kv_heads);
  comparison.add("double_sparsity", budgets().size(), expected.selectors[0].metrics, got.selectors[0].metrics);
  comparison.finish();
}

TEST(CudaLayerStudy, EverySelectorHasCudaCode) {
  SKIP_WITHOUT_GPU();
  for (const SelectorInfo* info : all_selectors()) {
    const Study study = study_of({std::string(info->name)});
    EXPECT_NO_THROW(make_cuda_layer_study(study, 0, {.share = 0.1})) << info->name;
  }
}

TEST(CudaLayerStudy, EveryMetricHasCudaCode) {
  for (const Metric& metric : all_metrics()) EXPECT_TRUE(metric.has_cuda_code()) << metric.info.name;
}

TEST(CudaLayerStudy, NamesAMetricThatRunsOnTheCpuAlone) {
  SKIP_WITHOUT_GPU();
  const Study study = study_of({"exact"});
  std::vector<Metric> metrics(all_metrics().begin(), all_metrics().end());
  EXPECT_NO_THROW(make_cuda_layer_study(study, 0, {.share = 0.1}, metrics));
  metrics.push_back({{"cpu_only", MetricAxes::query_head, "ratio", Better::neither, "a row without CUDA code"},
                     {},
                     SelectorFunctions{[](const SelectorRow&, std::span<double> out) { out[0] = 1; }, nullptr}});
  EXPECT_EQ(message_of<NoCudaCode>([&] { make_cuda_layer_study(study, 0, {.share = 0.1}, metrics); }),
            "metric 'cpu_only' has no CUDA code: choose --device cpu");
}

TEST(CudaLayerStudy, NamesASelectorThatRunsOnTheCpuAlone) {
  SKIP_WITHOUT_GPU();
  OptionReader reader({.label = "mine", .name = "template", .options = {}});
  const Study study = test::study_of(
      {test::study_selector("exact", {}), test::study_selector("mine", template_info.make(reader), budgets())});
  EXPECT_EQ(message_of<NoCudaCode>([&] { make_cuda_layer_study(study, 0, {.share = 0.1}); }),
            "selector 'template' has no CUDA code: leave it out, or choose --device cpu");
}

TEST(CudaLayerStudy, NamesItsDevice) {
  SKIP_WITHOUT_GPU();
  const Study study = study_of({"exact"});
  const std::string device = make_cuda_layer_study(study, 0)->device();
  EXPECT_NE(device.find("cuda:0"), std::string::npos) << device;
  EXPECT_THROW(resolve_device("cuda:99"), UsageError);
  EXPECT_THROW(make_cuda_layer_study(study, 0, {.bytes = std::uint64_t{1} << 50}), UsageError);
}

}  // namespace
}  // namespace attest::cuda_test
