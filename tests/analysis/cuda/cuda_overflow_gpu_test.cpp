// Overflows on the device: found where the CPU finds them, and named by the same sentence.
#include <gtest/gtest.h>

#include "analysis/cuda/cuda_overflow.h"
#include "dumps/base/error.h"
#include "tests/analysis/studies.h"
#include "tests/cases.h"
#include "tests/kernels/device_rows.h"
#include "tests/message_of.h"

namespace attest::test {
namespace {

class CudaOverflow : public OnGpu {};

void put(LayerBuffer& tensor, std::size_t i, float value) {
  convert_from_float(ElementType::bfloat16, &value, 1, tensor.data() + i * size_of(ElementType::bfloat16));
}

AttentionLayer small_layer() { return make_layer({"small", 1, 2, 64, 64, ElementType::bfloat16, {40, 299}}); }

/// Token 7 holds both ends of the range in two channels of `tensor`.
AttentionLayer layer_with_wide_range(LayerBuffer AttentionLayer::*tensor, bool seen_by_queries) {
  AttentionLayer layer = small_layer();
  for (std::size_t row = 0; row < 4 && !seen_by_queries; ++row)
    for (std::size_t channel : {3u, 4u}) put(layer.q, row * 64 + channel, 0);
  put(layer.*tensor, 7 * 64 + 3, 3.3e38f);
  put(layer.*tensor, 7 * 64 + 4, -3.3e38f);
  return layer;
}

std::string defect_on_device(const std::string& selector, const AttentionLayer& layer) {
  const std::vector<Setting> grid{{0.85}};
  const Study study = study_of({study_selector(selector, grid)});
  const std::string expected = make_cpu_layer_study(study, 2)->run(layer).defect;
  const std::string found = make_cuda_layer_study(study, 0)->run(layer).defect;
  EXPECT_EQ(found, expected) << selector;
  return found;
}

TEST_F(CudaOverflow, IsFoundWhereTheCpuFindsIt) {
  const AttentionLayer scores = layer_with_wide_range(&AttentionLayer::k, true),
                       ranges = layer_with_wide_range(&AttentionLayer::k, false),
                       values = layer_with_wide_range(&AttentionLayer::v, false);
  EXPECT_NE(defect_on_device("exact", scores), "");
  EXPECT_EQ(defect_on_device("exact", ranges), "");
  for (const char* selector : {"twilight:dense_layers=0", "twilight:dense_layers=0,rule=reference", "ffd:bits=1",
                               "ffd:bits=1,residual=none,rule=topp", "sale:dense_below=0", "kivi"})
    defect_on_device(selector, ranges);
  EXPECT_NE(defect_on_device("twilight:dense_layers=0", ranges), "");
  EXPECT_NE(defect_on_device("ffd:bits=1", ranges), "");
  EXPECT_NE(defect_on_device("kivi", values), "");
  EXPECT_EQ(defect_on_device("exact", small_layer()), "");
}

TEST_F(CudaOverflow, ALayerOfMoreRowsThanAKeyCanTellApartIsRefused) {
  AttentionLayer layer = small_layer();
  layer.shape.num_query_heads = 1 << 28;
  const Study study = study_of({study_selector("exact", {})});
  EXPECT_EQ(message_of<DeviceError>([&] { make_cuda_layer_study(study, 0)->run(layer); }),
            "2 queries of 268435456 heads are more than the 268435456 rows that the GPU study takes; choose --device "
            "cpu");
}

TEST_F(CudaOverflow, IsForgottenByTheNextLayer) {
  const Study study = study_of({study_selector("exact", {})});
  const std::unique_ptr<LayerStudy> layers = make_cuda_layer_study(study, 0);
  const AttentionLayer bad = layer_with_wide_range(&AttentionLayer::k, true), good = small_layer();
  layers->submit(bad);
  layers->submit(good);
  EXPECT_NE(layers->collect().defect, "");
  expect_same_values(layers->collect(), make_cuda_layer_study(study, 0)->run(good), "after an overflow");
}

TEST_F(CudaOverflow, AnInterruptionEndsALayer) {
  const Study study = study_of({study_selector("exact", {})});
  const std::unique_ptr<LayerStudy> layers = make_cuda_layer_study(study, 0);
  const AttentionLayer layer = small_layer();
  std::atomic<bool> stop{true};
  layers->end_when(&stop);
  EXPECT_THROW(layers->run(layer), Interrupted);
  stop = false;
  expect_same_values(layers->run(layer), make_cuda_layer_study(study, 0)->run(layer), "after an interruption");
}

TEST(OverflowKey, HoldsThePlace) {
  EXPECT_FALSE(overflow_of_key(kNoOverflow, 8));
  const OverflowKey of_selector_2 = (OverflowKey{2 + 3 * 2 + 1} << 50) | (OverflowKey{8 * 30 + 5} << 22) | 2'999'999;
  const Overflow place = overflow_of_key(of_selector_2, 8).value();
  EXPECT_EQ(place.step, OverflowStep::read_score);
  EXPECT_EQ(place.selector, 2u);
  EXPECT_EQ(place.query, 30);
  EXPECT_EQ(place.query_head, 5);
  EXPECT_EQ(place.token, 2'999'999);
  EXPECT_EQ(overflow_of_key(0, 8)->step, OverflowStep::score);
  EXPECT_EQ(overflow_of_key(OverflowKey{1} << 50, 8)->step, OverflowStep::exact_output);
}

}  // namespace
}  // namespace attest::test
