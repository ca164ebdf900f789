// Finite values of extreme magnitude: every selector ends, and either says where a number overflows, or gives metrics
// that are finite or not defined.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "analysis/layer/overflow.h"
#include "tests/analysis/studies.h"
#include "tests/cases.h"

namespace attest::test {
namespace {

using ::testing::HasSubstr;

constexpr double kInf = std::numeric_limits<double>::infinity();

/// Every selector, at both ends of its options where these change what is computed.
const std::vector<std::string> kSelectors =
    with_all_other_selectors({"ffd:bits=1",
                              "ffd:bits=8,residual=int8,scale=sequence,gqa=per_head",
                              "ffd:bits=1,residual=none,rule=topp,sub_block=16",
                              "ffd:residual=exact,rule=topk,pseudo_max=exact,quant_arith=dump",
                              "ffd:residual=fp8,pseudo_max=global,block=16,quant_arith=dump",
                              "ffd:scan=exact,pseudo_max=global_exact,delta_unit=unscaled",
                              "quest:dense_layers=0",
                              "quest:dense_layers=0,page=1,preset=kernel,gqa=shared",
                              "kivi",
                              "kivi:bits=4,group=64,quant_arith=dump",
                              "kv_cache:k=fp8_e4m3,v=fp8_e5m2",
                              "kv_cache:k=fp8_e5m2,v=fp8_e4m3,k_scale=amax,v_scale=amax_head",
                              "kv_cache:k=nvfp4,v=nvfp4_4over6",
                              "kv_cache:k=nvfp4_4over6,v=nvfp4,k_scale=modelopt,v_scale=unit",
                              "kv_cache:k=q8_0,v=q5_1",
                              "kv_cache:k=q4_1,v=q8_0",
                              "kv_cache:k=q5_0,v=q4_0",
                              "kv_cache:k=q4_0,v=q5_0,rotate=none",
                              "kv_cache:k=turboquant4,v=turboquant3",
                              "kv_cache:k=turboquant3,v=turboquant4",
                              "kv_cache:k=int4_token_head,v=int4_token_head",
                              "twilight:dense_layers=0",
                              "twilight:dense_layers=0,base=none,weights=estimated",
                              "twilight:dense_layers=0,base_budget=16,page=1,rule=reference",
                              "twilight:dense_layers=0,base=none,rule=reference,weights=estimated",
                              "topk:granularity=block,gqa=union",
                              "topp:granularity=block,block=1",
                              "topdelta:gqa=union",
                              "sparq:rank=1",
                              "sparq:score=softmax,mean_value=off,local=0",
                              "double_sparsity:dense_layers=0,calibrate=other",
                              "double_sparsity:dense_layers=0,calibrate=other,channel=k,bits=16",
                              "sale:dense_below=0",
                              "sale:dense_below=0,key_scale=token",
                              "skip_softmax:tile=16,splits=3,gqa=per_head",
                              "skip_softmax:unit=factor",
                              "imported:file=own.h5,dataset=tokens",
                              "imported:file=own.h5,dataset=blocks,granularity=block,block=16,rule=topp,gqa=union"});

std::vector<Setting> grid_of(SettingKind kind) {
  switch (kind) {
    case SettingKind::delta:
      return {{0}, {5}, {kInf}};
    case SettingKind::budget:
      return {{1}, {64}, {100, true}};
    case SettingKind::p:
      return {{1e-9}, {0.85}, {1}};
    case SettingKind::factor:
      return {{1e-9}, {1000}};
    case SettingKind::none:
      break;
  }
  return {Setting{}};
}

float largest(ElementType type) {
  return type == ElementType::float16 ? 65504.0f : type == ElementType::bfloat16 ? 0x1.fep127f : 0x1.fffffep127f;
}

Case case_of(ElementType type) { return {"extreme", 1, 2, 64, 64, type, {40, 299}}; }

/// A defect that names its place, or metrics that are finite or NaN, and defined where they always are.
void expect_sound(const LayerResults& results, const std::string& what) {
  if (!results.defect.empty()) {
    EXPECT_THAT(results.defect, HasSubstr("layer 5, query head ")) << what;
    return;
  }
  const auto expect_values = [&](const MetricValues& m, const std::string& of) {
    static const std::vector<std::string> kAlwaysDefined = {"lse",       "score_std",     "entropy",
                                                            "lse_error", "mass_recall",   "keep_ratio",
                                                            "io_ratio",  "salient_ratio", "salient_hit_rate"};
    const bool defined = std::ranges::find(kAlwaysDefined, m.name) != kAlwaysDefined.end();
    for (float value : m.values) {
      const bool nothing_kept = m.name == "lse_error" && value == INFINITY;
      // Estimates from a file may be -inf.
      const bool from_file = of.starts_with("imported") && m.name.starts_with("scan_error");
      ASSERT_TRUE(!std::isinf(value) || nothing_kept || from_file) << what << ", " << of << ", " << m.name;
      ASSERT_TRUE(!std::isnan(value) || !defined) << what << ", " << of << ", " << m.name;
    }
  };
  for (const MetricValues& m : results.scores) expect_values(m, "exact scores");
  for (const SelectorLayerResults& selector : results.selectors)
    for (const MetricValues& m : selector.metrics) expect_values(m, what);
}

/// The selectors one by one, since the first overflow ends the work on a layer. Returns how many of them it ended.
int study_each(const AttentionLayer& layer, const AttentionLayer& calibration, const std::string& what) {
  int refused = 0;
  for (const std::string& name : kSelectors) {
    const std::vector<StudySelector> one{study_selector(name, grid_of(parse_selector(name)->setting_kind()))};
    calibrate_all(one, calibration);
    const LayerResults results = run_layer(one, layer);
    expect_sound(results, name + ", " + what);
    refused += results.defect.empty() ? 0 : 1;
  }
  return refused;
}

/// Replaces element i of a tensor.
void put(LayerBuffer& tensor, ElementType type, std::size_t i, float value) {
  convert_from_float(type, &value, 1, tensor.data() + i * size_of(type));
}

constexpr std::size_t kKeyOfToken7 = 7 * 64;

// The ranges of quantisers overflow here, not the scores, as the two channels cancel.
TEST(ExtremeValues, OfOneKey) {
  for (ElementType type : {ElementType::bfloat16, ElementType::float32, ElementType::float16}) {
    AttentionLayer layer = make_layer(case_of(type));
    for (std::size_t row = 0; row < 4; ++row)
      for (std::size_t channel : {3u, 4u}) put(layer.q, type, row * 64 + channel, row < 2 ? 0.0f : 1e-7f);
    put(layer.k, type, kKeyOfToken7 + 3, largest(type));
    put(layer.k, type, kKeyOfToken7 + 4, -largest(type));
    const int refused = study_each(layer, make_layer(case_of(type), kCalibrationSeed), name_of(type).data());
    if (type == ElementType::float16)
      EXPECT_EQ(refused, 2) << "only the norm of a key overflows, which both TurboQuant formats store in float16";
    else
      EXPECT_GT(refused, 0);
  }
}

TEST(ExtremeValues, OfEveryTensor) {
  for (ElementType type : {ElementType::bfloat16, ElementType::float32, ElementType::float16})
    for (const char* tensors : {"q", "k", "v", "qk", "qkv"}) {
      AttentionLayer layer = make_layer(case_of(type));
      Random random(5);
      for (char tensor : std::string(tensors)) {
        LayerBuffer& values = tensor == 'q' ? layer.q : tensor == 'k' ? layer.k : layer.v;
        for (std::size_t i = 0; i < values.size() / size_of(type); ++i)
          put(values, type, i, random.below(2) == 0 ? largest(type) : -largest(type));
      }
      study_each(layer, make_layer(case_of(type), kCalibrationSeed),
                 std::string(name_of(type)) + ", largest values in " + tensors);
    }
}

TEST(ExtremeValues, ATinySoftCap) {
  for (double softcap : {5e-324, 1e-300, 1e-38}) {
    AttentionLayer layer = make_layer(case_of(ElementType::bfloat16));
    layer.logit_softcap = softcap;
    study_each(layer, make_layer(case_of(ElementType::bfloat16), kCalibrationSeed), "soft-cap");
  }
}

TEST(ExtremeValues, TheSentenceNamesThePlace) {
  AttentionLayer layer = make_layer(case_of(ElementType::float32));
  layer.sliding_window = 100;
  put(layer.k, ElementType::float32, 250 * 64, 3e38f);
  put(layer.q, ElementType::float32, (2 + 1) * 64, 1e3f);  // query 1, query head 1
  put(layer.q, ElementType::float32, 2 * 64, 0.0f);        // query 1, query head 0
  const std::string defect = run_layer({study_selector("exact", {})}, layer).defect;
  EXPECT_EQ(defect,
            "layer 5, query head 1, query at 299: the score of token 250 is NaN or beyond 1.15e+18, the largest that "
            "is studied");
}

TEST(ExtremeValues, TheSentenceNamesTheSelector) {
  AttentionLayer layer = make_layer(case_of(ElementType::bfloat16));
  for (std::size_t row = 0; row < 4; ++row)
    for (std::size_t channel : {3u, 4u}) put(layer.q, ElementType::bfloat16, row * 64 + channel, 0);
  put(layer.k, ElementType::bfloat16, kKeyOfToken7 + 3, 3.3e38f);
  put(layer.k, ElementType::bfloat16, kKeyOfToken7 + 4, -3.3e38f);
  EXPECT_EQ(
      run_layer({study_selector("exact", {}),
                 study_selector("four=twilight:dense_layers=0", parse_selector("twilight:dense_layers=0"), {{0.85}})},
                layer)
          .defect,
      "layer 5, query head 0, query at 40: the score that selector 'four=twilight:dense_layers=0' estimates for "
      "token 7 is NaN or beyond 1.15e+18, the largest that is studied");
}

// The values that a selector attends with are its own: quantised here, and their range overflows.
TEST(ExtremeValues, QuantisedValues) {
  AttentionLayer layer = make_layer(case_of(ElementType::bfloat16));
  put(layer.v, ElementType::bfloat16, kKeyOfToken7 + 3, 3.3e38f);
  put(layer.v, ElementType::bfloat16, kKeyOfToken7 + 4, -3.3e38f);
  EXPECT_EQ(run_layer({study_selector("kivi", {})}, layer).defect,
            "layer 5, query head 0, query at 299: the output of selector 'kivi' is NaN or infinite");
  EXPECT_EQ(run_layer({study_selector("exact", {})}, layer).defect, "");
}

/// Values whose magnitudes are mixed from extremes, each kind more or less often.
void fill(LayerBuffer& tensor, ElementType type, Random& random) {
  double weight[6];
  for (double& w : weight) w = random.below(2) == 0 ? 0 : std::pow(random.uniform(), 4);
  weight[random.below(6)] = 1;
  const double all = weight[0] + weight[1] + weight[2] + weight[3] + weight[4] + weight[5];
  const double exponent = random.uniform(-45, 38);
  for (std::size_t i = 0; i < tensor.size() / size_of(type); ++i) {
    double which = all * random.uniform();
    int kind = 0;
    while (kind < 5 && which >= weight[kind]) which -= weight[kind++];
    const double magnitude[] = {0,
                                1e-45 * static_cast<double>(1 + random.below(1000)),
                                static_cast<double>(largest(type)),
                                std::pow(10, exponent),
                                std::pow(10, random.uniform(-45, 38)),
                                random.uniform()};
    const double signed_value = (random.below(2) == 0 ? 1 : -1) * magnitude[kind];
    const auto maximum = static_cast<double>(largest(type));
    put(tensor, type, i, static_cast<float>(std::clamp(signed_value, -maximum, maximum)));
  }
}

TEST(ExtremeValues, OfRandomMagnitudes) {
  Random random(2025);
  int refused = 0, studied = 0;
  for (int i = 0; i < 300; ++i) {
    const ElementType type = i % 3 == 0   ? ElementType::float16
                             : i % 3 == 1 ? ElementType::bfloat16
                                          : ElementType::float32;
    Case c = case_of(type);
    c.sinks = random.below(3) == 0;
    AttentionLayer layer = make_layer(c, static_cast<std::uint64_t>(i));
    for (LayerBuffer* tensor : {&layer.q, &layer.k, &layer.v})
      if (random.below(4) > 0) fill(*tensor, type, random);
    if (random.below(3) == 0) layer.softmax_scale = std::pow(10, random.uniform(-38, 38));
    if (random.below(3) == 0) layer.logit_softcap = std::pow(10, random.uniform(-38, 38));
    if (random.below(4) == 0) layer.sliding_window = 1 + random.below(300);
    for (float& sink : layer.sinks)
      if (random.below(2) == 0) sink = random.below(2) == 0 ? 3e38f : -3e38f;
    const int ended = study_each(layer, make_layer(c, kCalibrationSeed), "random layer " + std::to_string(i));
    refused += ended;
    studied += static_cast<int>(kSelectors.size()) - ended;
  }
  EXPECT_GT(refused, 1000);
  EXPECT_GT(studied, 1000);
}

}  // namespace
}  // namespace attest::test
