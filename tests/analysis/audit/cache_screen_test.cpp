// Every pair of storages in one pass, against the prediction of each alone; the storages that a layer may have.
#include "analysis/audit/cache_screen.h"

#include <gtest/gtest.h>

#include <cmath>

#include "analysis/audit/hypothesis.h"
#include "analysis/layer/layer_amax.h"
#include "kernels/selectors/registry.h"
#include "tests/analysis/audit/plain_engine.h"
#include "tests/near.h"

namespace attest::test {
namespace {

constexpr double kOrderOfSums = 1e-9;  // relative, of the same numbers added in another order
constexpr double kNoiseOfSize = 0.05;  // the size of the rounding is that of the dump's own numbers in one pass

TEST(CacheScreenTest, PairsFitAsTheyDoAlone) {
  for (const std::size_t c : {0, 16, 6}) {  // grouped heads; sinks and a window; a soft-cap
    const AttentionLayer layer = make_layer(cases()[c]);
    const EngineOutput out = run_engine(layer, {.keys = "fp8_e4m3", .values = "fp8_e4m3"});
    const AuditInput input{
        .layer = layer, .output = out.output, .output_lse = out.lse, .output_type = layer.element_type};
    const LayerAmax amax = layer_amax(layer, 1);
    const auto exact = make_selector({"exact", "exact", {}});
    const std::vector<KvStorage> keys = possible_storages(layer, amax, true, {}, *exact),
                                 values = possible_storages(layer, amax, false, {}, *exact);
    const std::vector<RowPlace> rows{{0, 0}, {layer.num_queries() - 1, layer.shape.group() - 1}};
    const RoundingBound bound(layer.element_type, layer.element_type, layer.shape.value_dim, 2);
    const std::vector<RowPrediction> known = predict(input, plain_hypothesis(input, {}), rows, nullptr);
    const std::vector<StoragePair> pairs = screen_storages(input, keys, values, rows, known, bound, nullptr);
    EXPECT_GT(pairs.size(), 100u);
    std::size_t explained = 0;
    for (const StoragePair& pair : pairs) {
      const bool within = std::ranges::all_of(pair.fits, &RowFit::explained);
      explained += within ? 1 : 0;
      if (pair.values != pair.keys && pair.keys % 5 != 0) continue;  // some of them
      const Hypothesis alone = plain_hypothesis(input, {keys[pair.keys], values[pair.values]});
      const std::vector<RowPrediction> predicted = predict(input, alone, rows, nullptr);
      for (std::size_t r = 0; r < rows.size(); ++r) {
        const RowFit fit =
            fit_row(input.observed(rows[r].query, rows[r].head), input.observed_lse(rows[r].query, rows[r].head),
                    predicted[r].output, predicted[r].lse, predicted[r].rounding, bound);
        EXPECT_TRUE(near(pair.fits[r].lse_difference, fit.lse_difference, kOrderOfSums * 100)) << alone.text;
        const double size = std::max(known[r].rounding.size, predicted[r].rounding.size),
                     error = fit.error * predicted[r].rounding.size;
        EXPECT_TRUE(near(pair.fits[r].error * size, error, kNoiseOfSize * error + kOrderOfSums)) << alone.text;
      }
    }
    EXPECT_GE(explained, 1u);
    EXPECT_LT(explained, pairs.size() / 2);
  }
}

TEST(CacheScreenTest, LatentValuesFollowTheirKeys) {
  AttentionLayer layer = make_layer({"latent", 1, 4, 192, 128, ElementType::bfloat16, {60, 99}});
  layer.shape.values_in_keys = 1;
  for (std::int64_t t = 0; t < layer.num_tokens; ++t)
    std::copy_n(layer.k.data() + t * 384, 256, layer.v.data() + t * 256);
  const EngineOutput out = run_engine(layer, {.keys = "fp8_ds_mla"});
  const AuditInput input{
      .layer = layer, .output = out.output, .output_lse = out.lse, .output_type = layer.element_type};
  const auto exact = make_selector({"exact", "exact", {}});
  const std::vector<KvStorage> keys = possible_storages(layer, layer_amax(layer, 1), true, {}, *exact),
                               values = possible_storages(layer, layer_amax(layer, 1), false, {}, *exact);
  ASSERT_EQ(values.size(), 1u);
  const std::vector<RowPlace> rows{{0, 1}, {1, 3}};
  const RoundingBound bound(layer.element_type, layer.element_type, 128, 2);
  const std::vector<RowPrediction> known = predict(input, plain_hypothesis(input, {}), rows, nullptr);
  const auto pairs = screen_storages(input, keys, values, rows, known, bound, nullptr);
  const auto nearest = std::ranges::min_element(pairs, {}, [](const StoragePair& pair) { return pair.fits[0].error; });
  EXPECT_EQ(keys[nearest->keys].format->name, "fp8_ds_mla");
  EXPECT_LT(nearest->fits[0].error, 1e-6);
}

TEST(CacheScreenTest, StoragesOfTheSameNumbersAreOne) {
  const AttentionLayer layer = make_layer(cases()[0]);  // values below 448: modelopt's scale is 1
  const auto exact = make_selector({"exact", "exact", {}});
  const std::vector<KvStorage> keys = possible_storages(layer, layer_amax(layer, 1), true, {}, *exact);
  const auto unit = std::ranges::find_if(keys, [](const KvStorage& one) {
    return one.format != nullptr && one.format->name == "fp8_e4m3" && one.scale == "unit";
  });
  ASSERT_NE(unit, keys.end());
  EXPECT_EQ(unit->same_numbers, std::vector<std::string>{"modelopt"});
  for (std::size_t i = 0; i < keys.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) EXPECT_FALSE(keys[i].same_as(keys[j])) << i << ' ' << j;
  EXPECT_EQ(keys[0].format, nullptr);
}

TEST(CacheScreenTest, DeclaredStoragesAreThoseOfTheSelector) {
  const AttentionLayer layer = make_layer(cases()[0]);
  const LayerAmax amax = layer_amax(layer, 1);
  const auto text = [&](OptionPairs options) {
    return storages_text(declared_storages(*make_selector({"kv_cache", "kv_cache", std::move(options)}), layer, amax));
  };
  EXPECT_EQ(text({{"k", "fp8_e4m3"}, {"v", "nvfp4"}, {"k_scale", "0.5"}}), "k=fp8_e4m3,v=nvfp4,k_scale=0.5");
  EXPECT_EQ(text({{"k", "q8_0"}, {"rotate", "none"}}), "k=q8_0,v=native,rotate=none");
  EXPECT_EQ(text({}), "exact attention, from keys and values as dumped");
  EXPECT_EQ(text({{"k", "fp8_e4m3"}, {"skip_layers", "5"}}),
            "exact attention, from keys and values as dumped");  // layers of cases are layer 5
}

}  // namespace
}  // namespace attest::test
