// Layers and studies for comparing the CUDA study with the CPU study: element types, dimensions, group sizes, lengths,
// kinds of data, and selectors with their options.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "analysis/layer/device.h"
#include "dumps/base/error.h"
#include "tests/analysis/studies.h"

namespace attest::cuda_test {

enum class Data { peaked, flat, tied, huge, zeros };

struct Case {
  const char* name;
  ElementType type;
  int query_heads, kv_heads, head_dim, value_dim;
  std::int64_t tokens;
  std::vector<std::int64_t> positions;
  Data data = Data::peaked;
  double softcap = 0;
  std::int64_t window = 0;
  bool spans = false, sinks = false;
  bool values_in_keys = false;

  friend void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }
};

inline void fill(LayerBuffer& buffer, ElementType type, const std::vector<float>& values) {
  buffer.resize(values.size() * size_of(type));
  convert_from_float(type, values.data(), values.size(), buffer.data());
}

/// One estimate per `width` tokens for each query head or, if `of_groups`, each KV head. Values are multiples of 1/64,
/// so that many tie. With `gaps`, a quarter of them is -inf.
inline LayerEstimates estimates_of(const AttentionLayer& layer, const char* dataset, int width, bool of_groups,
                                   bool in_double, bool gaps = false) {
  std::mt19937 random(static_cast<unsigned>(width * 2 + of_groups));
  std::normal_distribution<float> normal;
  LayerEstimates estimates(std::pmr::get_default_resource());
  estimates.source = {"estimates", dataset, width};
  estimates.num_heads = of_groups ? layer.shape.num_kv_heads : layer.shape.num_query_heads;
  estimates.query_heads_per_estimate = of_groups ? layer.shape.group() : 1;
  estimates.num_entries = (layer.num_tokens + width - 1) / width;
  estimates.in_double = in_double;
  std::vector<float> values(
      static_cast<std::size_t>(layer.num_queries() * estimates.num_heads * estimates.num_entries));
  for (float& x : values) x = gaps && random() % 4 == 0 ? -INFINITY : std::rint(128 * normal(random)) / 64;
  const std::vector<double> doubles(values.begin(), values.end());
  estimates.values.resize(values.size() * (in_double ? sizeof(double) : sizeof(float)));
  std::memcpy(estimates.values.data(), in_double ? static_cast<const void*>(doubles.data()) : values.data(),
              estimates.values.size());
  return estimates;
}

/// Adds the estimates that the selectors below import.
inline void add_estimates(AttentionLayer& layer) {
  layer.estimates.push_back(estimates_of(layer, "tokens", 1, false, false));
  layer.estimates.push_back(estimates_of(layer, "group", 1, true, true));
  layer.estimates.push_back(estimates_of(layer, "gaps", 1, false, false, true));
  layer.estimates.push_back(estimates_of(layer, "blocks", 24, false, true));
  layer.estimates.push_back(estimates_of(layer, "group_blocks", 64, true, false));
  layer.estimates.push_back(estimates_of(layer, "block_gaps", 16, true, false, true));
}

/// Sinks from negligible to nearly the whole mass of the softmax.
inline std::vector<float> sinks_of(int query_heads) {
  std::vector<float> sinks;
  for (int h = 0; h < query_heads; ++h) sinks.push_back(-20.0f + 7.5f * static_cast<float>(h % 6));
  return sinks;
}

/// Gradients of norm 1, so that losses have the scale of the errors, for values of this size.
inline void add_gradients(AttentionLayer& layer, float size) {
  std::mt19937 random(17);
  std::normal_distribution<float> normal;
  const auto rows = static_cast<std::size_t>(layer.num_queries() * layer.shape.num_query_heads);
  const float scale = 1 / (size * std::sqrt(static_cast<float>(layer.shape.value_dim)));
  for (std::size_t r = 0; r < rows; ++r) layer.head_gradient.push_back(std::fabs(normal(random)) / size);
  for (std::size_t i = 0; i < rows * static_cast<std::size_t>(layer.shape.value_dim); ++i)
    layer.output_gradient.push_back(scale * normal(random));
}

/// A few keys share a direction with the queries, so that attention has peaks. `tied`: five keys repeat. `zeros`: every
/// other query row and all keys of the first KV head are 0.
inline AttentionLayer make_layer(const Case& c, int number = 3) {
  std::mt19937 random(static_cast<unsigned>(number * 7919 + c.head_dim));
  std::normal_distribution<float> normal;
  AttentionLayer layer;
  layer.layer = number;
  layer.shape = {c.query_heads, c.kv_heads, c.head_dim, c.value_dim, c.values_in_keys};
  layer.element_type = c.type;
  layer.softmax_scale = 1 / std::sqrt(static_cast<double>(c.head_dim));
  layer.logit_softcap = c.softcap;
  layer.sliding_window = c.window;
  layer.num_tokens = c.tokens;
  layer.query_positions = c.positions;
  if (c.spans)
    layer.spans = {{c.tokens / 4, c.tokens / 4 + 9}, {c.tokens / 4 + 5, c.tokens / 3 + 12}, {c.tokens - 3, c.tokens}};
  const auto d = static_cast<std::size_t>(c.head_dim), dv = static_cast<std::size_t>(c.value_dim),
             t = static_cast<std::size_t>(c.tokens);
  const auto queries = static_cast<std::size_t>(c.query_heads) * c.positions.size(),
             kv = static_cast<std::size_t>(c.kv_heads);
  std::vector<float> q(queries * d), k(kv * t * d), v(kv * t * dv), direction(d);
  for (float& x : direction) x = normal(random);
  const float spread = c.data == Data::flat ? 0.05f : 1.0f, size = c.data == Data::huge ? 300.0f : 1.0f;
  for (std::size_t i = 0; i < q.size(); ++i) q[i] = spread * (0.7f * normal(random) + direction[i % d]);
  for (std::size_t j = 0; j < kv * t; ++j) {
    const float pull = j % t < 3 ? 2.5f : random() % 61 == 0 ? 1.2f : 0.1f;
    for (std::size_t i = 0; i < d; ++i)
      k[j * d + i] = normal(random) * (i % 17 == 3 ? 4.0f : 0.8f) + pull * direction[i];
    if (c.data == Data::huge && random() % 200 == 0)
      for (std::size_t i = 0; i < d; ++i) k[j * d + i] *= size;
    if (c.data == Data::tied && j >= 5)
      std::copy_n(k.begin() + static_cast<std::ptrdiff_t>((j % 5) * d), d,
                  k.begin() + static_cast<std::ptrdiff_t>(j * d));
  }
  for (float& x : v) x = normal(random) * size;
  for (std::size_t i = 0; i < v.size() && c.values_in_keys; ++i) v[i] = k[i / dv * d + i % dv];
  if (c.data == Data::zeros) {
    for (std::size_t i = 0; i < q.size(); ++i) q[i] *= static_cast<float>(i / d % 2);
    std::fill_n(k.begin(), t * d, 0.0f);
  }
  fill(layer.q, c.type, q);
  fill(layer.k, c.type, k);
  fill(layer.v, c.type, v);
  if (c.sinks) layer.sinks = sinks_of(c.query_heads);
  add_gradients(layer, size);
  add_estimates(layer);
  return layer;
}

inline std::vector<Setting> budgets() { return {{64}, {12.5, true}, {256}, {50, true}, {100, true}, {3}}; }

inline std::vector<Setting> grid_of(SettingKind kind) {
  switch (kind) {
    case SettingKind::delta:
      return {{1}, {3}, {5}, {2}, {8}, {12}, {INFINITY}};
    case SettingKind::budget:
      return budgets();
    case SettingKind::p:
      return {{0.5}, {0.85}, {0.95}, {0.999}, {1}};
    case SettingKind::factor:
      return {{100}, {1}, {3000}, {10}, {1}};
    case SettingKind::none:
      break;
  }
  return {Setting{}};
}

/// Calibration sample for layer `number`: the same shape and kind of data, other values.
inline AttentionLayer sample_for(const Case& c, int number = 3) {
  AttentionLayer sample = make_layer(c, 96 + number);
  sample.layer = number;
  return sample;
}

inline Study study_of(const std::vector<std::string>& texts) {
  Study study;
  for (const std::string& text : texts)
    study.selectors.push_back(test::study_selector(text, grid_of(test::parse_selector(text)->setting_kind())));
  study.lambdas.push_back(0.1);  // nine lambdas: the tails need more than one pass
  return study;
}

/// A group_factor for double_sparsity that divides head_dim; 7 divides the odd dimensions of the cases.
inline std::string group_factor_for(const Case& c) { return c.head_dim % 8 == 0 ? "4" : "7"; }

/// Every selector, with options under which it is dense in no layer of the cases.
inline Study all_selectors_study(const Case& c) {
  Study study = study_of(test::with_all_other_selectors(
      {"exact", "ffd", "quest:dense_layers=0", "kivi:group=16", "twilight:dense_layers=0,base_budget=256",
       "double_sparsity:calibrate=other,group_factor=" + group_factor_for(c), "sale:dense_below=100",
       "imported:file=estimates,dataset=tokens"}));
  test::calibrate_all(study.selectors, sample_for(c));
  return study;
}

inline const std::vector<std::string> kVariants = {
    "ffd:bits=1",
    "ffd:bits=3",
    "ffd:bits=4",
    "ffd:bits=8",
    "ffd:scale=sequence",
    "ffd:residual=int8",
    "ffd:residual=none",
    "ffd:residual=exact",
    "ffd:pseudo_max=exact",
    "ffd:pseudo_max=global",
    "ffd:pseudo_max=global_exact",
    "ffd:sub_block=32",
    "ffd:sub_block=64,gqa=per_head",
    "ffd:block=96",
    "ffd:delta_unit=log2",
    "ffd:delta_unit=unscaled",
    "ffd:sink_blocks=2,local_blocks=0",
    "ffd:scan=exact",
    "ffd:rule=topk",
    "ffd:rule=topp",
    "ffd:scan=exact,rule=topk,gqa=per_head",
    "ffd:quant_arith=dump",
    "ffd:quant_arith=dump,residual=int8",
    "ffd:dense_layers=9",
    "quest",
    "quest:dense_layers=9",
    "quest:preset=kernel",
    "quest:gqa=shared",
    "quest:page=24",
    "kivi:bits=4,group=16",
    "kivi:residual_length=32,group=8",
    "kivi:quant_arith=dump,group=16",
    "twilight:rule=reference,base_budget=256",
    "twilight:base=none",
    "twilight:weights=estimated,page=32,base_budget=200",
    "twilight:base_budget=25%",
    "streaming_llm:sink=8",
    "topk:gqa=union",
    "topp:gqa=union",
    "topk:granularity=block",
    "topdelta:granularity=block,gqa=union",
    "topp:granularity=block,block=24",
    "sparq:score=softmax",
    "sparq:mean_value=off,local=0,rank=8",
    "sparq:count=paper,score=softmax,rank=64,local=1",
    "sale",
    "sale:key_scale=token,dense_below=0",
    "sale:dense_below=0",
    "skip_softmax:tile=16,gqa=per_head",
    "skip_softmax:tile=16,splits=3",
    "skip_softmax:unit=factor,tile=24,splits=40",
    "skip_softmax:unit=factor,tile=1,gqa=per_head",
    "imported:file=estimates,dataset=tokens,rule=topp",
    "imported:file=estimates,dataset=tokens,rule=topdelta,gqa=union",
    "imported:file=estimates,dataset=group,sink=4,local=17,scan_bytes=3",
    "imported:file=estimates,dataset=group,rule=topp,gqa=union",
    "imported:file=estimates,dataset=gaps,units=ranks",
    "imported:file=estimates,dataset=gaps,units=ranks,rule=topp",
    "imported:file=estimates,dataset=gaps,units=ranks,rule=topdelta",
    "imported:file=estimates,dataset=blocks,granularity=block,block=24",
    "imported:file=estimates,dataset=blocks,granularity=block,block=24,"
    "rule=topp,gqa=union,sink=1,local=30",
    "imported:file=estimates,dataset=group_blocks,granularity=block,"
    "rule=topdelta",
    "imported:file=estimates,dataset=block_gaps,granularity=block,block=16,"
    "rule=topp,units=ranks"};

/// Two bits are tested with float32 elements only. With 16-bit elements, quantisation levels of a query are often
/// multiples of each other: estimates that tie in double then differ by rounding errors in float32.
inline Study double_sparsity(const Case& c) {
  const std::string factor = group_factor_for(c), coarse = c.head_dim % 8 == 0 ? "8" : "7";
  const std::string few_bits = c.type == ElementType::float32 ? "2" : "8";
  std::vector<std::string> texts;
  for (const std::string& options :
       {"group_factor=" + factor, "channel=q,bits=" + few_bits + ",group_factor=" + factor,
        "channel=k,bits=8,group_factor=" + coarse, "bits=16,group_factor=" + coarse, std::string("group_factor=1")})
    texts.push_back("double_sparsity:calibrate=other," + options);
  Study study = study_of(texts);
  test::calibrate_all(study.selectors, sample_for(c));
  return study;
}

/// KV-cache formats that fit the case: every format as keys, as values, and both, with every kind of scale.
inline Study kv_cache_study(const Case& c) {
  std::vector<std::string> options{"",
                                   "k=fp8_e4m3,v=fp8_e5m2,k_scale=0.3,v_scale=2.5",
                                   "k=fp8_e4m3,v=fp8_e4m3,k_scale=amax,v_scale=amax_head",
                                   "k=fp8_e5m2,k_scale=modelopt",
                                   "k=nvfp4,v=nvfp4_4over6,k_scale=modelopt",
                                   "k=q8_0,v=q4_0,rotate=none",
                                   "k=turboquant4,v=turboquant3",
                                   "k=q8_0,v=q5_1,dense_layers=9"};
  for (const KvFormat* format : kv_formats()) {
    const std::string name(format->name);
    options.push_back("k=" + name);
    if (!format->of_values) continue;
    options.push_back("v=" + name);
    options.push_back("k=" + name + ",v=" + name);
  }
  std::vector<std::string> texts;
  for (const std::string& own : options) {
    const std::string text = own.empty() ? "kv_cache" : "kv_cache:" + own;
    try {
      test::parse_selector(text)->check({c.head_dim, c.value_dim, c.values_in_keys});
      texts.push_back(text);
    } catch (const UsageError&) {
    }
  }
  return study_of(texts);
}

constexpr auto bf16 = ElementType::bfloat16, fp16 = ElementType::float16, f32 = ElementType::float32;

inline const Case kCases[] = {
    {"llama_bf16", bf16, 8, 2, 128, 128, 1000, {700, 998, 999}, Data::peaked, 0, 0, true},
    {"llama_fp16", fp16, 8, 2, 128, 128, 1000, {63, 500, 999}},
    {"llama_f32", f32, 8, 2, 128, 128, 1000, {640, 999}},
    {"mha_80_f32", f32, 3, 3, 80, 80, 640, {383, 639}},
    {"d64_bf16", bf16, 4, 4, 64, 64, 513, {511, 512}},
    {"d96_fp16_value_48", fp16, 6, 2, 96, 48, 777, {300, 776}},
    {"d192_bf16_value_128", bf16, 16, 1, 192, 128, 300, {255, 256, 299}},
    {"d256_softcap_window", bf16, 8, 4, 256, 256, 900, {100, 611, 612, 899}, Data::peaked, 30, 333, true},
    {"window_of_one_block", fp16, 4, 2, 64, 64, 700, {5, 127, 128, 300, 699}, Data::peaked, 0, 129, false},
    {"mla_576_512", bf16, 16, 1, 576, 512, 400, {128, 399}},
    {"latent_576_512", bf16, 16, 1, 576, 512, 700, {128, 500, 699}, Data::peaked, 0, 0, false, false, true},
    {"latent_320_256", f32, 8, 1, 320, 256, 400, {0, 128, 399}, Data::peaked, 20, 0, false, true, true},
    {"group_16_many_queries", bf16, 32, 2, 64, 64, 300, {260, 261, 262, 263, 264, 270, 280, 299}},
    {"group_5_across_batches",
     fp16,
     10,
     2,
     64,
     64,
     400,
     {40, 41, 47, 63, 64, 100, 160, 161, 222, 255, 256, 300, 301, 399}},
    {"odd_dimensions_f32", f32, 4, 2, 77, 48, 200, {130, 199}},
    {"odd_dimensions_bf16", bf16, 4, 2, 70, 80, 300, {199, 299}},
    {"one_key", bf16, 4, 2, 64, 64, 3, {0, 1, 2}},
    {"short", fp16, 4, 2, 64, 64, 140, {0, 1, 15, 31, 32, 33, 63, 126, 127, 128, 129, 139}, Data::peaked, 0, 0, true},
    {"zeros", bf16, 4, 2, 64, 64, 300, {0, 150, 299}, Data::zeros},
    {"flat", bf16, 8, 2, 128, 128, 1030, {1029}, Data::flat},
    {"tied_f32", f32, 8, 2, 64, 64, 700, {128, 699}, Data::tied},
    {"tied_bf16", bf16, 8, 2, 128, 128, 700, {255, 699}, Data::tied},
    {"huge_f32", f32, 4, 2, 64, 64, 600, {599}, Data::huge},
    {"huge_fp16", fp16, 4, 2, 64, 64, 600, {400, 599}, Data::huge},
    {"long_bf16", bf16, 4, 1, 128, 128, 9001, {8191, 8192, 9000}},
    {"long_f32", f32, 2, 1, 64, 64, 20000, {19999}},
    {"one_block_full", bf16, 2, 1, 64, 64, 32768, {32766, 32767}},
    {"beyond_one_block", bf16, 2, 1, 64, 64, 33000, {32768, 32999}},
    {"long_tied", bf16, 2, 1, 64, 64, 34000, {16000, 33999}, Data::tied},
    {"sinks_bf16", bf16, 12, 2, 128, 128, 700, {0, 127, 128, 500, 699}, Data::peaked, 0, 0, true, true},
    {"sinks_fp16_window", fp16, 10, 2, 64, 48, 400, {5, 63, 100, 101, 399}, Data::peaked, 30, 129, false, true},
    {"sinks_f32", f32, 7, 7, 77, 80, 300, {15, 16, 299}, Data::peaked, 0, 0, false, true},
    {"sinks_zeros", bf16, 8, 2, 64, 64, 300, {0, 150, 299}, Data::zeros, 0, 0, false, true},
};

inline bool has_gpu() { return std::ranges::any_of(visible_gpus().gpus, &Gpu::usable); }
#define SKIP_WITHOUT_GPU() \
  if (!has_gpu()) GTEST_SKIP() << "no CUDA device"

}  // namespace attest::cuda_test
