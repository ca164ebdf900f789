// kv_cache against its formulas on every case, its scales, layers that it skips, its files and error messages.
#include "dumps/base/error.h"
#include "tests/dumps/scratch_folder.h"
#include "tests/kernels/kv_formats/plain_formats.h"
#include "tests/kernels/kv_formats/safetensors.h"
#include "tests/kernels/selectors/selector_test.h"
#include "tests/message_of.h"

namespace attest::test {
namespace {

struct Stored {
  const KvFormat* format;
  KvRows rows;
  double scale;
};

Row through(const Stored& stored, const Row& x) {
  return stored.format == nullptr ? x : plain_stored(std::string(stored.format->name), stored.rows, stored.scale, x);
}

PlainForm kv_cache(const std::string& options) {
  const Options o(options);
  return [o](const Query& query) {
    const bool rotate = !o.is("rotate", "none");
    const auto side = [&](bool keys) {
      const std::string scale = o.text(keys ? "k_scale" : "v_scale", "1");
      return Stored{find_kv_format(o.text(keys ? "k" : "v", "native")),
                    {.keys = keys,
                     .channels = keys ? query.dim() : query.value_dim(),
                     .shared_values = query.head->values_in_keys ? query.value_dim() : 0,
                     .rotate = rotate,
                     .element_type = query.head->element_type},
                    f32(std::stod(scale))};
    };
    const Stored k = side(true), v = side(false);
    std::vector<Row> keys, values;
    for (std::int64_t j = 0; j < query.length(); ++j) {
      Row key, value;
      for (int d = 0; d < query.dim(); ++d) key.push_back(query.k(j, d));
      for (int d = 0; d < query.value_dim(); ++d) value.push_back(query.v(j, d));
      keys.push_back(through(k, key));
      values.push_back(through(v, value));
      if (query.head->values_in_keys)
        values.back().assign(keys.back().begin(), keys.back().begin() + query.value_dim());
    }
    Plain plain;
    for (int h = 0; h < query.group(); ++h) plain.estimate.push_back(query.scores_of(h, keys));
    if (k.format != nullptr) plain.read_scores = plain.estimate;
    if (v.format != nullptr || (query.head->values_in_keys && k.format != nullptr)) plain.stored_values = values;
    plain.keep = [=](double) {
      return std::vector<Kept>(static_cast<std::size_t>(query.group()),
                               Kept(static_cast<std::size_t>(query.length()), 1));
    };
    plain.bytes = [=](const std::vector<Kept>&) {
      const auto bytes = [](const Stored& s) {
        return s.format == nullptr ? 2.0 * s.rows.channels : s.format->bytes(s.rows);
      };
      return static_cast<double>(query.length()) * (bytes(k) + (query.head->values_in_keys ? 0 : bytes(v)));
    };
    return plain;
  };
}

bool suits(const std::string& options, const Case& c) {
  try {
    selector("kv_cache", options)->check({c.head_dim, c.value_dim});
    return true;
  } catch (const UsageError&) {
    return false;
  }
}

TEST(KvCache, ConformsToItsFormulas) {
  for (const char* options :
       {"", "k=fp8_e4m3,v=fp8_e5m2,k_scale=0.3,v_scale=2.5", "k=nvfp4,v=nvfp4_4over6,k_scale=0.01,v_scale=0.002",
        "k=q8_0,v=q4_1", "v=q5_1,rotate=none", "k=turboquant3,v=turboquant4", "k=int4_token_head"}) {
    const Compared compared =
        expect_conforms("kv_cache", options, kv_cache(options), [&](const Case& c) { return suits(options, c); });
    EXPECT_GT(compared.all, 20) << options;
  }
}

/// The head of a layer whose values are the first channels of its keys.
TEST(KvCache, ValuesInKeysAreThoseOfTheStoredKeys) {
  const Case c{"latent", 1, 4, 320, 256, ElementType::bfloat16, {40, 130}};
  for (const char* options : {"", "k=fp8_ds_mla", "k=fp8_e4m3", "k=q8_0", "k=nvfp4,k_scale=0.01"}) {
    std::vector<HeadData> heads = heads_of(make_layer(c));
    HeadData& data = heads[0];
    data.head.values_in_keys = true;
    for (std::int64_t j = 0; j < data.head.length; ++j)
      std::copy_n(data.keys.data() + j * 320, 256, data.values.data() + j * 256);
    const std::unique_ptr<Selector> product = selector("kv_cache", options);
    product->check({320, 256, true});
    Selection found;
    found.reset(data.head, {}, 1);
    const std::vector<AscendingGrid> grids(data.visible.size(), AscendingGrid{{0}, {0}});
    const RankedScores exact = exact_scores(data.head);
    product->select(data.head, exact, grids, found);
    Compared compared;
    for (int n = 0; n < data.head.num_queries; ++n)
      compare_query(*product, {&data.head, n}, kv_cache(options), grids[0], found, options, compared);
    EXPECT_EQ(compared.all, 8);
  }
}

TEST(KvCache, ScalesOfTheLayerAndOfItsHeads) {
  const Case c{"", 1, 1, 64, 64, ElementType::bfloat16, {20}};
  std::vector<HeadData> heads = heads_of(make_layer(c));
  KvHead& head = heads[0].head;
  head.kv_head = 1;
  const std::vector<float> k{896, 44.8f, 0}, v{0, 0, 0};
  head.key_amax = k;
  head.value_amax = v;
  const auto estimate = [&](const std::string& options) {
    Selection found;
    found.reset(head, {}, 1);
    selector("kv_cache", options)->select(head, exact_scores(head), std::vector<AscendingGrid>(1, {{0}, {0}}), found);
    const auto row = found.estimate->scores.row(0, head.length);
    return Row(row.begin(), row.end());
  };
  EXPECT_EQ(estimate("k=fp8_e4m3,k_scale=amax"), estimate("k=fp8_e4m3,k_scale=2"));
  EXPECT_EQ(estimate("k=fp8_e4m3,k_scale=amax_head"), estimate("k=fp8_e4m3,k_scale=0.1"));
  EXPECT_EQ(estimate("k=fp8_e5m2,k_scale=amax"), estimate("k=fp8_e5m2,k_scale=0.015625"));
  EXPECT_EQ(estimate("k=fp8_e4m3,k_scale=modelopt"), estimate("k=fp8_e4m3,k_scale=2"));
  EXPECT_EQ(estimate("k=nvfp4"), estimate("k=nvfp4,k_scale=amax"));
  EXPECT_EQ(estimate("k=nvfp4,k_scale=modelopt"), estimate("k=nvfp4,k_scale=2"));
  EXPECT_EQ(estimate("k=fp8_e4m3"), estimate("k=fp8_e4m3,k_scale=unit"));
  EXPECT_NE(estimate("k=fp8_e4m3,k_scale=0.1"), estimate("k=fp8_e4m3,k_scale=2"));
  const std::vector<float> small{44.8f, 1, 1}, zero{0, 0, 0};
  head.key_amax = small;
  EXPECT_EQ(estimate("k=fp8_e4m3,k_scale=modelopt"), estimate("k=fp8_e4m3,k_scale=1"));  // not below 1
  EXPECT_EQ(estimate("k=nvfp4,k_scale=modelopt"), estimate("k=nvfp4,k_scale=0.1"));
  head.key_amax = zero;
  EXPECT_EQ(estimate("k=fp8_e4m3,k_scale=amax"), estimate("k=fp8_e4m3,k_scale=1"));  // a scale of 0 becomes 1
  EXPECT_TRUE(selector("kv_cache", "v=nvfp4")->needs_amax());
  EXPECT_FALSE(selector("kv_cache", "k=fp8_e4m3,v=q4_0,v_scale=amax")->needs_amax());  // q4_0 takes no scale
}

TEST(KvCache, SkippedLayersAreDense) {
  const std::unique_ptr<Selector> product = selector("kv_cache", "k=q4_0,skip_layers=0+3+30,dense_layers=2");
  for (const int layer : {0, 1, 3, 30}) EXPECT_TRUE(product->is_dense(layer, 0)) << layer;
  for (const int layer : {2, 4, 29, 31}) EXPECT_FALSE(product->is_dense(layer, 0)) << layer;
}

TEST(KvCache, RefusesOptionsThatDoNotFit) {
  const auto check = [](const std::string& options, KvShape kv) {
    return message_of<std::exception>([&] { selector("kv_cache", options)->check(kv); });
  };
  EXPECT_EQ(check("k=nvfp4", {72, 64}),
            "selector 'kv_cache': option 'k' is 'nvfp4', and keys have 72 channels, expected a multiple of 16");
  EXPECT_EQ(check("v=q8_0", {128, 80}),
            "selector 'kv_cache': option 'v' is 'q8_0', and values have 80 channels, expected a multiple of 32");
  EXPECT_EQ(check("v=fp8_e4m3", {576, 512, true}),
            "selector 'kv_cache': option 'v' is 'fp8_e4m3', expected 'native': the values are in the keys "
            "(values_in_keys), which k stores");
  EXPECT_EQ(check("k=fp8_ds_mla", {576, 512}),
            "selector 'kv_cache': option 'k' is 'fp8_ds_mla', and keys have no values among their channels, expected "
            "latent attention (dump attribute values_in_keys)");
  for (const char* options :
       {"k=fp9", "v=fp8_ds_mla", "k_scale=0", "k_scale=-1", "k_scale=nan", "k_scale=1e-45", "k_scale=inf", "k_scale=x",
        "k_scale=file", "k=nvfp4,k_scale=amax_head", "skip_layers=1,2", "skip_layers=1++2", "skip_layers=+",
        "skip_layers=1+", "skip_layers=-1", "skip_layers=x", "rotate=all"})
    EXPECT_THROW(selector("kv_cache", options), UsageError) << options;
}

TEST(KvCache, ScalesFromAFile) {
  const ScratchFolder folder;
  const std::string path = scales_of_two_layers(folder);
  const auto made = [&](const std::string& options) { return selector("kv_cache", options + ",scales_file=" + path); };
  made("k=fp8_e4m3,v=fp8_e4m3")->check_layer(0, 2);
  made("k=fp8_e4m3")->check_layer(3, 2);
  made("v=q4_0")->check_layer(7, 2);  // takes no scale
  made("k=fp8_e4m3,k_scale=unit")->check_layer(7, 2);
  made("k=fp8_e4m3,skip_layers=7")->check_layer(7, 2);
  EXPECT_EQ(made("k=fp8_e4m3")->input_files(), std::vector{path});
  const auto refusal = [&](const std::string& options, int layer, int heads) {
    return message_of<std::exception>([&] { made(options)->check_layer(layer, heads); });
  };
  EXPECT_EQ(
      refusal("k=fp8_e4m3", 1, 2),
      path + ": has no tensor layers.1.*k_scale, expected the scale of layer 1 (skip_layers leaves it in 16 bit)");
  EXPECT_EQ(
      refusal("v=fp8_e4m3", 3, 2),
      path + ": has no tensor layers.3.*v_scale, expected the scale of layer 3 (skip_layers leaves it in 16 bit)");
  EXPECT_EQ(refusal("k=fp8_e4m3", 3, 4),
            path + ": layers.3.*k_scale has 2 numbers, expected one, or 4, one per KV head");
  EXPECT_EQ(refusal("k=nvfp4", 3, 2),
            path + ": layers.3.*k_scale has 2 numbers, expected one: nvfp4 has one scale for all KV heads");
}

}  // namespace
}  // namespace attest::test
