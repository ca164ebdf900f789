// Audits of layers: sound engines of every kind agree, and faults of every kind are found at their first row and named.
#include "analysis/audit/layer_audit.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "dumps/base/error.h"
#include "kernels/selectors/registry.h"
#include "kernels/selectors/selector_text.h"
#include "tests/analysis/audit/plain_engine.h"

namespace attest::test {
namespace {

constexpr auto f16 = ElementType::float16, bf16 = ElementType::bfloat16, f32_type = ElementType::float32;

std::unique_ptr<Selector> selector_named(const std::string& text) {
  SelectorSpec spec;
  EXPECT_EQ(parse_selector_text(text, spec), "");
  return make_selector(spec);
}

/// An audit of what an engine gives, where `expected` is what it says it does.
LayerAudit audited(const AttentionLayer& layer, const Engine& engine, ElementType output_type,
                   const std::string& expected = "exact", bool with_lse = true, AuditInput* more = nullptr) {
  const EngineOutput out = run_engine(layer, engine);
  const auto selector = selector_named(expected);
  AuditInput input{.layer = layer, .output = out.output, .output_lse = {}, .output_type = output_type};
  if (with_lse) input.output_lse = out.lse;
  if (more != nullptr) {
    input.prompt_length = more->prompt_length;
    input.rope = more->rope;
    input.other_windows = more->other_windows;
  }
  return audit_layer(input, {.expected = {*selector, {}}, .threads = 2});
}

AttentionLayer layer_of(const std::string& name) {
  for (const Case& c : cases())
    if (c.name == name) return make_layer(c);
  ADD_FAILURE() << name;
  return AttentionLayer();
}

/// What engines do of themselves: probabilities in the type of the values, outputs in their own.
Engine sound(ElementType type, std::vector<ElementType> rounds) {
  Engine engine;
  engine.computes = type;
  engine.rounds = std::move(rounds);
  return engine;
}

class SoundLayers : public testing::TestWithParam<Case> {};

TEST_P(SoundLayers, AgreeInEveryElementType) {
  Case c = GetParam();
  for (const ElementType type : {f16, bf16, f32_type}) {
    if (c.pattern == Pattern::outliers && type == f16) continue;  // probabilities below float16's smallest number
    c.type = type;
    const AttentionLayer layer = make_layer(c);
    for (const ElementType output : {f16, bf16, f32_type}) {
      if (c.pattern == Pattern::outliers && output == f16) continue;  // values beyond it
      const LayerAudit audit = audited(layer, sound(type, {output}), output);
      EXPECT_FALSE(audit.first) << name_of(type) << ' ' << name_of(output) << ": error " << audit.worst_expected().error
                                << ", LSE " << audit.worst_expected().lse_difference;
      EXPECT_EQ(audit.rows, layer.num_queries() * layer.shape.num_query_heads);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, SoundLayers, testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

TEST(LayerAuditTest, AnOutputThatIsRoundedTwiceAgrees) {
  for (const auto& [first, second] : {std::pair(f16, bf16), std::pair(bf16, f16), std::pair(f32_type, bf16)}) {
    const LayerAudit audit = audited(layer_of("llama"), sound(bf16, {first, second}), second);
    EXPECT_FALSE(audit.first);
    EXPECT_GT(audit.worst_expected().error, 1e-4);  // it was rounded
  }
}

struct DeclaredCache {
  const char *keys, *values, *options;
};

std::ostream& operator<<(std::ostream& out, const DeclaredCache& cache) {
  return out << "k=" << cache.keys << ",v=" << cache.values << cache.options;
}

/// Every format, with what it needs of a layer: D = Dv = 128 of "llama", or the latent layer.
class DeclaredCaches : public testing::TestWithParam<DeclaredCache> {};

TEST_P(DeclaredCaches, AgreeWithWhatTheyPredict) {
  const auto& [keys, values, options] = GetParam();
  const bool latent = std::string(keys) == "fp8_ds_mla";
  AttentionLayer layer = layer_of(latent ? "latent" : "llama");
  if (latent) {
    layer.shape.values_in_keys = 1;
    for (std::int64_t t = 0; t < layer.num_tokens; ++t)
      std::copy_n(layer.k.data() + t * 1152, 1024, layer.v.data() + t * 1024);
  }
  Engine engine = sound(layer.element_type, {layer.element_type});
  engine.keys = keys;
  engine.values = values;
  const auto largest = [&](const LayerBuffer& buffer, std::int64_t channels) {
    double maximum = 0;
    for (std::int64_t r = 0; r < layer.shape.num_kv_heads * layer.num_tokens; ++r)
      maximum = std::max(maximum, magnitude(row_of(layer, buffer, r, channels)));
    return maximum;
  };
  if (std::string(keys).starts_with("nvfp4")) engine.key_scale = f32(largest(layer.k, layer.shape.head_dim) / 2688);
  if (std::string(values).starts_with("nvfp4"))
    engine.value_scale = f32(largest(layer.v, layer.shape.value_dim) / 2688);
  if (std::string(options).find("k_scale=amax") != std::string::npos)
    engine.key_scale = f32(largest(layer.k, layer.shape.head_dim) / 448);
  if (std::string(options).find("rotate=none") != std::string::npos) engine.rotate = false;
  const std::string text = std::string("kv_cache:k=") + keys + ",v=" + values + options;
  const LayerAudit audit = audited(layer, engine, layer.element_type, text);
  EXPECT_FALSE(audit.first) << audit.worst_expected().error;
  EXPECT_LT(audit.worst_expected().error, audit.worst_exact().error);
  if (!std::string(keys).starts_with("q8")) {
    EXPECT_GT(audit.worst_exact().beyond, 0);  // what the cache says can be told from 16 bits
  }
}

INSTANTIATE_TEST_SUITE_P(
    Formats, DeclaredCaches,
    testing::Values(DeclaredCache{"fp8_e4m3", "fp8_e4m3", ""}, DeclaredCache{"fp8_e4m3", "fp8_e4m3", ",k_scale=amax"},
                    DeclaredCache{"fp8_e5m2", "fp8_e5m2", ""}, DeclaredCache{"nvfp4", "nvfp4", ""},
                    DeclaredCache{"nvfp4_4over6", "nvfp4_4over6", ""}, DeclaredCache{"q8_0", "q8_0", ""},
                    DeclaredCache{"q8_0", "q4_0", ",rotate=none"}, DeclaredCache{"q5_1", "q5_1", ""},
                    DeclaredCache{"q5_0", "q5_0", ""}, DeclaredCache{"q4_1", "q4_1", ""},
                    DeclaredCache{"q4_0", "q4_0", ""}, DeclaredCache{"turboquant4", "turboquant4", ""},
                    DeclaredCache{"turboquant3", "turboquant3", ""},
                    DeclaredCache{"int4_token_head", "int4_token_head", ""},
                    DeclaredCache{"fp8_e4m3", "turboquant4", ""}, DeclaredCache{"native", "fp8_e4m3", ""},
                    DeclaredCache{"fp8_ds_mla", "native", ""}));

TEST(LayerAuditTest, QueriesInQ8_0AreTheRoundingOfLlamaCpp) {
  Case c = cases()[0];
  c.type = f32_type;
  const AttentionLayer layer = make_layer(c);
  Engine engine = sound(f32_type, {f32_type});
  engine.keys = engine.values = "q4_0";
  engine.integer_queries = true;
  const LayerAudit audit = audited(layer, engine, f32_type, "kv_cache:k=q4_0,v=q4_0");
  EXPECT_FALSE(audit.first);
  EXPECT_NE(audit.expected.find("queries in q8_0"), std::string::npos) << audit.expected;
}

/// A fault, the layer that shows it and what an audit must call it.
struct Planted {
  std::string name, layer, expected, kind, says;
  void (*plant)(Engine& engine);
};

std::ostream& operator<<(std::ostream& out, const Planted& planted) { return out << planted.name; }

const std::vector<Planted>& faults() {
  static const std::vector<Planted> all = {
      {"own_key_hidden", "short", "exact", "mask", "does not see its own key", [](Engine& e) { e.next_keys = -1; }},
      {"next_key_seen", "short", "exact", "mask", "sees the next key", [](Engine& e) { e.next_keys = 1; }},
      {"no_mask", "short", "exact", "mask", "there is no mask", [](Engine& e) { e.masked = false; }},
      {"no_window", "window", "exact", "window", "window of 200 tokens is missing", [](Engine& e) { e.window = 0; }},
      {"window_off_by_one", "short_window", "exact", "window", "63 tokens instead of 64",
       [](Engine& e) { e.window = 63; }},
      {"a_window", "llama", "exact", "window", "a sliding window of 96 tokens", [](Engine& e) { e.window = 96; }},
      {"no_sinks", "sinks", "exact", "sinks", "learned sinks are missing", [](Engine& e) { e.sinks = false; }},
      {"no_softcap", "capped", "exact", "softcap", "soft-cap of 20 is missing", [](Engine& e) { e.softcap = false; }},
      {"no_scale", "group_of_7", "exact", "scale", "1 (none)", [](Engine& e) { e.scale = 1; }},
      {"another_scale", "llama", "exact", "scale", "0.05 (fitted)", [](Engine& e) { e.scale = 0.05; }},
      {"value_dim_scale", "wide_keys", "exact", "scale", "1/sqrt(value_dim)",
       [](Engine& e) { e.scale = 1 / std::sqrt(128.0); }},
      {"heads_modulo", "llama", "exact", "gqa", "h mod Hkv", [](Engine& e) { e.modulo = true; }},
      {"cache_a_token_late", "window", "exact", "position", "one token later", [](Engine& e) { e.cache_shift = 1; }},
      {"values_shifted", "own_heads", "exact", "values", "one token earlier", [](Engine& e) { e.value_shift = -1; }},
      {"queries_turned", "llama", "exact", "position", "rotated 3 positions more", [](Engine& e) { e.turned = 3; }},
      {"fp8_undeclared", "llama", "exact", "cache", "k=fp8_e4m3,v=fp8_e4m3",
       [](Engine& e) { e.keys = e.values = "fp8_e4m3"; }},
      {"q4_0_undeclared", "llama", "exact", "cache", "k=q4_0,v=q4_0", [](Engine& e) { e.keys = e.values = "q4_0"; }},
      {"other_format", "llama", "kv_cache:k=q8_0,v=q8_0", "cache", "k=q4_1,v=q4_1",
       [](Engine& e) { e.keys = e.values = "q4_1"; }},
      {"values_alone", "llama", "kv_cache:k=turboquant4,v=turboquant4", "cache", "k=native,v=turboquant4",
       [](Engine& e) { e.values = "turboquant4"; }},
      {"declared_fp8_is_16_bit", "llama", "kv_cache:k=fp8_e4m3,v=fp8_e4m3", "cache",
       "exact attention, from keys and values as dumped", [](Engine&) {}},
      {"nvfp4_with_4over6", "llama", "kv_cache:k=native,v=nvfp4,v_scale=1", "cache", "v=nvfp4_4over6",
       [](Engine& e) { e.values = "nvfp4_4over6"; }},
  };
  return all;
}

class PlantedFaults : public testing::TestWithParam<Planted> {};

TEST_P(PlantedFaults, AreFoundAndNamed) {
  const Planted& planted = GetParam();
  const AttentionLayer layer = layer_of(planted.layer);
  Engine engine = sound(layer.element_type, {layer.element_type});
  planted.plant(engine);
  AuditInput more{
      .layer = layer, .output = {}, .output_lse = {}, .rope = R"({"rope_theta": 10000.0, "rope_type": "default"})"};
  for (const bool with_lse : {true, false}) {
    const LayerAudit audit = audited(layer, engine, layer.element_type, planted.expected, with_lse, &more);
    ASSERT_TRUE(audit.first) << "not found";
    ASSERT_TRUE(audit.explanation);
    ASSERT_FALSE(audit.explanation->explaining.empty())
        << "not explained; nearest: " << audit.explanation->nearest.front().text << ", "
        << audit.explanation->nearest.front().error;
    const TestedHypothesis& best = audit.explanation->explaining.front();
    EXPECT_EQ(best.kind, planted.kind) << best.text;
    EXPECT_NE(best.text.find(planted.says), std::string::npos) << best.text;
    EXPECT_EQ(best.within, audit.explanation->tested);
    EXPECT_EQ(audit.explanation->failing, audit.worst_expected().beyond);
  }
}

INSTANTIATE_TEST_SUITE_P(Faults, PlantedFaults, testing::ValuesIn(faults()),
                         [](const auto& info) { return info.param.name; });

TEST(LayerAuditTest, ScalesOfOneAndCalibratedOnesAreToldApart) {
  Case c = cases()[0];
  c.type = f16;  // in bfloat16 rounding covers the difference
  const AttentionLayer layer = make_layer(c);
  double maximum = 0;
  for (std::int64_t r = 0; r < 2 * layer.num_tokens; ++r)
    maximum = std::max(maximum, magnitude(row_of(layer, layer.k, r, 128)));
  Engine engine = sound(f16, {f16});
  engine.keys = "fp8_e4m3";
  engine.key_scale = f32(maximum / 448);
  const LayerAudit calibrated = audited(layer, engine, f16, "kv_cache:k=fp8_e4m3,v=native");
  ASSERT_TRUE(calibrated.explanation && !calibrated.explanation->explaining.empty());
  EXPECT_NE(calibrated.explanation->explaining.front().text.find("k_scale=amax"), std::string::npos);
  engine.key_scale = 1;
  const LayerAudit unit = audited(layer, engine, f16, "kv_cache:k=fp8_e4m3,v=native,k_scale=amax");
  ASSERT_TRUE(unit.explanation && !unit.explanation->explaining.empty());
  EXPECT_NE(unit.explanation->explaining.front().text.find("k=fp8_e4m3,v=native ("), std::string::npos);
  engine.key_scale = f32(maximum / 448);
  engine.read_factor = 1 / engine.key_scale;
  const LayerAudit forgotten = audited(layer, engine, f16, "kv_cache:k=fp8_e4m3,v=native,k_scale=amax");
  ASSERT_TRUE(forgotten.explanation && !forgotten.explanation->explaining.empty());
  EXPECT_NE(forgotten.explanation->explaining.front().text.find("keys stored with k_scale=amax and read without it"),
            std::string::npos)
      << forgotten.explanation->explaining.front().text;
}

TEST(LayerAuditTest, HypothesesThatPredictTheSameAreBothNamed) {
  // Without a window, keys one token earlier are those of a mask that hides the row's own key.
  const AttentionLayer layer = layer_of("short");
  Engine engine = sound(bf16, {bf16});
  engine.next_keys = -1;
  const LayerAudit audit = audited(layer, engine, bf16);
  ASSERT_TRUE(audit.explanation);
  std::vector<std::string> kinds;
  for (const TestedHypothesis& one : audit.explanation->explaining) kinds.push_back(one.kind);
  EXPECT_NE(std::ranges::find(kinds, "mask"), kinds.end());
  EXPECT_NE(std::ranges::find(kinds, "position"), kinds.end());
}

TEST(LayerAuditTest, TheFirstRowIsThatOfTheFault) {
  AttentionLayer layer = layer_of("short_window");  // queries at 10, 63, 64, 300; a window of 64
  Engine engine = sound(bf16, {bf16});
  engine.window = 0;
  const LayerAudit audit = audited(layer, engine, bf16);
  ASSERT_TRUE(audit.first);
  EXPECT_GE(audit.first->position, 64);  // before, the window hides nothing
  EXPECT_FALSE(audit.first->fit.explained());
  EXPECT_EQ(audit.heads.size(), 2u);
}

TEST(LayerAuditTest, WhatNothingExplainsIsSaidToBeSo) {
  const AttentionLayer layer = layer_of("llama");
  Engine engine = sound(bf16, {bf16});
  engine.modulo = true;
  engine.scale = 0.03;  // two faults at once
  const LayerAudit audit = audited(layer, engine, bf16);
  ASSERT_TRUE(audit.explanation);
  EXPECT_TRUE(audit.explanation->explaining.empty());
  ASSERT_FALSE(audit.explanation->nearest.empty());
  EXPECT_LT(audit.explanation->nearest.front().within, audit.explanation->tested);
  EXPECT_GT(audit.explanation->nearest.front().error, audit.explanation->nearest.front().bound);
}

TEST(LayerAuditTest, ASparseSelectorIsExpectedWhereItIsNamed) {
  const AttentionLayer layer = layer_of("llama");
  const auto selector = selector_named("streaming_llm");
  Engine engine = sound(bf16, {bf16});
  const EngineOutput dense = run_engine(layer, engine);
  engine.window = 60;  // and the first four: not this selector
  const EngineOutput windowed = run_engine(layer, engine);
  const AuditInput all{.layer = layer, .output = dense.output, .output_lse = dense.lse, .output_type = bf16};
  const LayerAudit everything = audit_layer(all, {.expected = {*selector, {.value = 600}}, .threads = 1});
  EXPECT_FALSE(everything.first);  // the budget keeps every key
  const AuditInput recent{.layer = layer, .output = windowed.output, .output_lse = windowed.lse, .output_type = bf16};
  const LayerAudit streaming = audit_layer(recent, {.expected = {*selector, {.value = 64}}, .threads = 1});
  ASSERT_TRUE(streaming.first);  // the selector keeps 4 sinks, too
  EXPECT_EQ(streaming.explanation->explaining.front().kind, "window");
  const LayerAudit not_sparse = audit_layer(all, {.expected = {*selector, {.value = 64}}, .threads = 1});
  ASSERT_TRUE(not_sparse.first);
  EXPECT_EQ(not_sparse.explanation->explaining.front().text, "exact attention, from keys and values as dumped");
}

TEST(LayerAuditTest, RowsOfThePromptAloneAreSaidToBeSo) {
  const AttentionLayer layer = layer_of("llama");  // queries at 299, 383, 501
  Engine engine = sound(bf16, {bf16});
  const EngineOutput raw = run_engine(layer, engine);
  engine.keys = engine.values = "fp8_e4m3";
  EngineOutput mixed = run_engine(layer, engine);
  std::copy_n(raw.output.begin(), raw.output.size() / 3, mixed.output.begin());
  std::copy_n(raw.lse.begin(), raw.lse.size() / 3, mixed.lse.begin());
  const auto selector = selector_named("kv_cache:k=fp8_e4m3,v=fp8_e4m3");
  const AuditInput input{
      .layer = layer, .output = mixed.output, .output_lse = mixed.lse, .output_type = bf16, .prompt_length = 300};
  const LayerAudit audit = audit_layer(input, {.expected = {*selector, {}}, .threads = 1});
  EXPECT_TRUE(audit.prompt_alone);
  ASSERT_TRUE(audit.explanation && !audit.explanation->explaining.empty());
  EXPECT_EQ(audit.explanation->explaining.front().text, "exact attention, from keys and values as dumped");
}

TEST(LayerAuditTest, ThreadsDoNotChangeAnAudit) {
  const AttentionLayer layer = layer_of("llama");
  Engine engine = sound(bf16, {bf16});
  engine.window = 100;
  const EngineOutput out = run_engine(layer, engine);
  const auto selector = selector_named("exact");
  const AuditInput input{.layer = layer, .output = out.output, .output_lse = out.lse, .output_type = bf16};
  std::vector<std::string> seen;
  for (const int threads : {1, 3}) {
    const LayerAudit audit = audit_layer(input, {.expected = {*selector, {}}, .threads = threads});
    std::string text;
    for (const TestedHypothesis& one : audit.explanation->explaining)
      text += one.text + std::to_string(one.mean_excess) + std::to_string(one.error);
    seen.push_back(text + std::to_string(audit.worst_expected().error));
  }
  EXPECT_EQ(seen[0], seen[1]);
}

TEST(LayerAuditTest, AnInterruptedAuditEnds) {
  const AttentionLayer layer = layer_of("llama");
  const EngineOutput out = run_engine(layer, {});
  const auto selector = selector_named("exact");
  const AuditInput input{.layer = layer, .output = out.output, .output_lse = {}, .output_type = f32_type};
  const std::atomic<bool> stop{true};
  EXPECT_THROW(audit_layer(input, {.expected = {*selector, {}}, .threads = 1, .stop = &stop}), Interrupted);
}

}  // namespace
}  // namespace attest::test
