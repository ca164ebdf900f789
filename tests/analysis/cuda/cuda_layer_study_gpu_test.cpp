// The study on a CUDA device against the study on the CPU: every selector and metric, over element types, dimensions,
// group sizes, lengths and kinds of data.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <random>
#include <thread>

#include "analysis/layer/layer_study.h"
#include "dumps/base/error.h"
#include "kernels/selectors/registry.h"
#include "tests/analysis/studies.h"
#include "tests/dumps/scratch_folder.h"

namespace attest {
extern const SelectorInfo template_info;

namespace {

// Scores are summed in float32 on the device and in double on the CPU. A score of magnitude 30 differs by about 1e-5,
// and so do log-sum-exps, masses and outputs.
constexpr double kTolerance = 2e-4;
// For scores in the thousands, where the resolution of float32 is coarser.
constexpr double kHugeTolerance = 1e-3;
// Rank correlation changes with every pair of scores that float32 ties or puts in another order.
constexpr double kRankTolerance = 1e-3;
// Largest share of cells whose kept set may differ, because a score is within rounding error of its threshold.
constexpr double kMostFlipped = 0.005;
// Largest share of cells beyond the tolerance, for metrics that jump when a score crosses a threshold.
constexpr double kMostJumped = 0.02;

bool is_rank(const std::string& metric) { return metric.starts_with("spearman"); }
bool jumps(const std::string& metric) {
  return metric.starts_with("salient_") || metric.starts_with("missed_") || metric.starts_with("scan_error_") ||
         metric.starts_with("span_keep") || metric.starts_with("dropped_gap");
}

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

  friend void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }
};

void fill(LayerBuffer& buffer, ElementType type, const std::vector<float>& values) {
  buffer.resize(values.size() * size_of(type));
  convert_from_float(type, values.data(), values.size(), buffer.data());
}

/// An estimate of every `width` tokens for each query head, or for each group: multiples of 1/64, of which many tie, a
/// quarter of those with gaps -inf.
LayerEstimates estimates_of(const AttentionLayer& layer, const char* dataset, int width, bool of_groups, bool in_double,
                            bool gaps = false) {
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

/// Those that the selectors below name.
void add_estimates(AttentionLayer& layer) {
  layer.estimates.push_back(estimates_of(layer, "tokens", 1, false, false));
  layer.estimates.push_back(estimates_of(layer, "group", 1, true, true));
  layer.estimates.push_back(estimates_of(layer, "gaps", 1, false, false, true));
  layer.estimates.push_back(estimates_of(layer, "blocks", 24, false, true));
  layer.estimates.push_back(estimates_of(layer, "group_blocks", 64, true, false));
  layer.estimates.push_back(estimates_of(layer, "block_gaps", 16, true, false, true));
}

/// Sinks that hardly count, that share the softmax, and that take nearly all of it.
std::vector<float> sinks_of(int query_heads) {
  std::vector<float> sinks;
  for (int h = 0; h < query_heads; ++h) sinks.push_back(-20.0f + 7.5f * static_cast<float>(h % 6));
  return sinks;
}

/// A few keys share a direction with the queries, so that attention has peaks. `tied`: five keys repeat. `zeros`: every
/// other query row and all keys of the first KV head are 0.
AttentionLayer make_layer(const Case& c, int number = 3) {
  std::mt19937 random(static_cast<unsigned>(number * 7919 + c.head_dim));
  std::normal_distribution<float> normal;
  AttentionLayer layer;
  layer.layer = number;
  layer.shape = {c.query_heads, c.kv_heads, c.head_dim, c.value_dim};
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
  if (c.data == Data::zeros) {
    for (std::size_t i = 0; i < q.size(); ++i) q[i] *= static_cast<float>(i / d % 2);
    std::fill_n(k.begin(), t * d, 0.0f);
  }
  fill(layer.q, c.type, q);
  fill(layer.k, c.type, k);
  fill(layer.v, c.type, v);
  if (c.sinks) layer.sinks = sinks_of(c.query_heads);
  add_estimates(layer);
  return layer;
}

std::vector<Setting> budgets() { return {{64}, {12.5, true}, {256}, {50, true}, {100, true}, {3}}; }

std::vector<Setting> grid_of(SettingKind kind) {
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
AttentionLayer sample_for(const Case& c, int number = 3) {
  AttentionLayer sample = make_layer(c, 96 + number);
  sample.layer = number;
  return sample;
}

Study study_of(const std::vector<std::string>& texts) {
  Study study;
  for (const std::string& text : texts)
    study.selectors.push_back(test::study_selector(text, grid_of(test::parse_selector(text)->setting_kind())));
  study.lambdas.push_back(0.1);  // nine lambdas: the tails need more than one pass
  return study;
}

/// A group_factor for double_sparsity that divides head_dim; 7 divides the odd dimensions of the cases.
std::string label_factor(const Case& c) { return c.head_dim % 8 == 0 ? "4" : "7"; }

/// Every selector, with options that make it dense in no layer of the cases.
Study methods(const Case& c) {
  Study study = study_of(test::and_every_other_selector(
      {"exact", "ffd", "quest:dense_layers=0", "kivi:group=16", "twilight:dense_layers=0,base_budget=256",
       "double_sparsity:calibrate=other,group_factor=" + label_factor(c), "sale:dense_below=100",
       "imported:file=estimates,dataset=tokens"}));
  test::teach(study.selectors, sample_for(c));
  return study;
}

const std::vector<std::string> kVariants = {"ffd:bits=1",
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
Study double_sparsity(const Case& c) {
  const std::string factor = label_factor(c), coarse = c.head_dim % 8 == 0 ? "8" : "7";
  const std::string few_bits = c.type == ElementType::float32 ? "2" : "8";
  std::vector<std::string> texts;
  for (const std::string& options :
       {"group_factor=" + factor, "channel=q,bits=" + few_bits + ",group_factor=" + factor,
        "channel=k,bits=8,group_factor=" + coarse, "bits=16,group_factor=" + coarse, std::string("group_factor=1")})
    texts.push_back("double_sparsity:calibrate=other," + options);
  Study study = study_of(texts);
  test::teach(study.selectors, sample_for(c));
  return study;
}

bool has_gpu() { return std::ranges::any_of(visible_gpus(), &Gpu::usable); }
#define SKIP_WITHOUT_GPU() \
  if (!has_gpu()) GTEST_SKIP() << "no CUDA device"

/// Compares two results metric by metric.
class Comparison {
 public:
  explicit Comparison(const Case& c)
      : tolerance_(c.data == Data::huge ? kHugeTolerance : kTolerance), group_(c.query_heads / c.kv_heads) {}

  void add(const std::string& label, std::size_t settings, const std::vector<MetricValues>& expected,
           const std::vector<MetricValues>& got) {
    ASSERT_EQ(expected.size(), got.size());
    num_settings_[label] = settings;
    std::vector<bool> flipped;
    for (std::size_t m = 0; m < expected.size(); ++m)
      if (expected[m].name == "keep_ratio") flipped = differing(expected[m].values, got[m].values);
    for (bool f : flipped) flipped_ += f, kept_sets_ += 1;
    for (std::size_t m = 0; m < expected.size(); ++m) {
      ASSERT_EQ(expected[m].name, got[m].name);
      ASSERT_EQ(expected[m].values.size(), got[m].values.size());
      // recall_layer includes heads whose kept sets may differ; recall is compared per head.
      if (expected[m].name == "recall_layer") continue;
      compare(label, expected[m], got[m], flipped);
    }
  }

  void finish() const {
    EXPECT_LE(static_cast<double>(flipped_), 2 + kMostFlipped * static_cast<double>(kept_sets_))
        << "kept sets that differ, of " << kept_sets_;
    for (const auto& [name, metric] : metrics_) {
      const double most = jumps(name) ? kMostJumped : 0;
      EXPECT_LE(static_cast<double>(metric.beyond), (most > 0 ? 3 : 0) + most * static_cast<double>(metric.cells))
          << name << ": of " << metric.cells << " cells; worst " << metric.worst << " in " << metric.where;
    }
  }

  /// The largest difference of each metric, for the log.
  std::string text() const {
    std::string out = std::to_string(flipped_) + " of " + std::to_string(kept_sets_) + " kept sets differ;";
    char number[32];
    for (const auto& [name, metric] : metrics_) {
      std::snprintf(number, sizeof number, " %.1e", metric.worst);
      out += " " + name + number +
             (metric.beyond > 0 ? "(" + std::to_string(metric.beyond) + "/" + std::to_string(metric.cells) + ")" : "");
    }
    return out;
  }

 private:
  struct Metric {
    double worst = 0;
    std::string where;
    std::size_t beyond = 0, cells = 0;
  };

  static std::vector<bool> differing(const std::vector<float>& a, const std::vector<float>& b) {
    std::vector<bool> out;
    for (std::size_t i = 0; i < a.size(); ++i) out.push_back(!(std::fabs(a[i] - b[i]) <= 1e-6));
    return out;
  }

  void compare(const std::string& label, const MetricValues& expected, const MetricValues& got,
               const std::vector<bool>& flipped) {
    Metric& metric = metrics_[expected.name];
    const double tolerance = is_rank(expected.name) ? kRankTolerance : tolerance_;
    const std::size_t settings = num_settings_.at(label);
    for (std::size_t i = 0; i < expected.values.size(); ++i) {
      if (expected.axes == MetricAxes::query_head_setting && flipped[i]) continue;
      if (expected.name == "io_ratio" && any_of_group(flipped, i, settings)) continue;
      const double e = expected.values[i], g = got.values[i];
      ++metric.cells;
      if ((std::isnan(e) && std::isnan(g)) || e == g) continue;
      const double off = std::fabs(e - g) / std::max(1.0, std::fabs(e));
      if (!(off <= metric.worst)) {
        metric.worst = std::isnan(off) ? INFINITY : off;
        metric.where = label + "[" + std::to_string(i) + "]: " + std::to_string(g) + ", expected " + std::to_string(e);
      }
      if (!(off <= tolerance)) ++metric.beyond;
    }
  }

  /// Whether the kept set of any head of the cell's group differs: io_ratio depends on all of them.
  bool any_of_group(const std::vector<bool>& flipped, std::size_t cell, std::size_t settings) const {
    const std::size_t first = cell / settings / group_ * group_;
    for (std::size_t h = first; h < first + group_; ++h)
      if (flipped[h * settings + cell % settings]) return true;
    return false;
  }

  double tolerance_;
  std::size_t group_;
  std::map<std::string, std::size_t> num_settings_;
  std::map<std::string, Metric> metrics_;
  std::size_t flipped_ = 0, kept_sets_ = 0;
};

void expect_same(const Study& study, const Case& c) {
  const AttentionLayer layer = make_layer(c);
  const LayerResults expected =
      make_cpu_layer_study(study, static_cast<int>(std::thread::hardware_concurrency()))->run(layer);
  const LayerResults got = make_cuda_layer_study(study, 0)->run(layer);
  Comparison comparison(c);
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

bool same_bits(const std::vector<MetricValues>& a, const std::vector<MetricValues>& b) {
  for (std::size_t m = 0; m < a.size(); ++m)
    if (a[m].values.size() != b[m].values.size() ||
        std::memcmp(a[m].values.data(), b[m].values.data(), a[m].values.size() * sizeof(float)) != 0) {
      ADD_FAILURE() << a[m].name << " differs";
      return false;
    }
  return true;
}

void expect_same_bits(const LayerResults& a, const LayerResults& b) {
  EXPECT_TRUE(same_bits(a.scores, b.scores));
  ASSERT_EQ(a.selectors.size(), b.selectors.size());
  for (std::size_t s = 0; s < a.selectors.size(); ++s)
    EXPECT_TRUE(same_bits(a.selectors[s].metrics, b.selectors[s].metrics)) << "selector " << s;
}

constexpr auto bf16 = ElementType::bfloat16, fp16 = ElementType::float16, f32 = ElementType::float32;

const Case kCases[] = {
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

class CudaLayerStudyTest : public testing::TestWithParam<Case> {};

TEST_P(CudaLayerStudyTest, MethodsAgreeWithTheCpu) {
  SKIP_WITHOUT_GPU();
  expect_same(methods(GetParam()), GetParam());
}

TEST_P(CudaLayerStudyTest, VariantsAgreeWithTheCpu) {
  SKIP_WITHOUT_GPU();
  expect_same(study_of(kVariants), GetParam());
}

TEST_P(CudaLayerStudyTest, DoubleSparsityAgreesWithTheCpu) {
  SKIP_WITHOUT_GPU();
  expect_same(double_sparsity(GetParam()), GetParam());
}

TEST_P(CudaLayerStudyTest, BitsRepeat) {
  SKIP_WITHOUT_GPU();
  const AttentionLayer layer = make_layer(GetParam());
  for (const Study& tried : {methods(GetParam()), double_sparsity(GetParam())}) {
    std::unique_ptr<LayerStudy> study = make_cuda_layer_study(tried, 0);
    const LayerResults first = study->run(layer);
    expect_same_bits(first, study->run(layer));
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, CudaLayerStudyTest, testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(CudaLayerStudy, LittleMemoryCutsTheWorkAndChangesNoBit) {
  SKIP_WITHOUT_GPU();
  const Case c{"", bf16, 32, 8, 128, 128, 6000, {5000, 5500, 5999}};
  const AttentionLayer layer = make_layer(c);
  std::size_t free = 0, total = 0;
  ASSERT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  const double share = static_cast<double>(std::size_t{48} << 20) / static_cast<double>(total);
  for (const Study& tried : {methods(c), double_sparsity(c)})
    expect_same_bits(make_cuda_layer_study(tried, 0)->run(layer),
                     make_cuda_layer_study(tried, 0, {.share = share})->run(layer));
}

TEST(CudaLayerStudy, LayersOverlap) {
  SKIP_WITHOUT_GPU();
  const Case c{"", bf16, 8, 2, 128, 128, 3000, {2000, 2999}}, other{"", f32, 4, 2, 64, 64, 500, {499}};
  std::vector<AttentionLayer> layers;
  Study tried = methods(c);
  for (int i = 0; i < 6; ++i) {
    layers.push_back(make_layer(i % 3 == 1 ? other : c, i));
    // methods() has calibrated layer 3 already.
    if (i != 3) test::teach(tried.selectors, sample_for(i % 3 == 1 ? other : c, i));
  }
  std::unique_ptr<LayerStudy> study = make_cuda_layer_study(tried, 0), alone = make_cuda_layer_study(tried, 0);
  std::size_t collected = 0;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    study->submit(layers[i]);
    if (static_cast<int>(i - collected) + 1 < study->most_submitted()) continue;
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

TEST(CudaLayerStudy, TooLittleMemoryIsOneSentence) {
  SKIP_WITHOUT_GPU();
  const Case c{"", bf16, 8, 2, 128, 128, 3000, {2999}};
  const AttentionLayer layer = make_layer(c);
  const Study study = methods(c);
  for (const auto& [bytes, what] : {std::pair(std::uint64_t{1000000}, "two turns of one KV head's keys and values"),
                                    std::pair(std::uint64_t{3150000}, "may use beside keys and values")}) {
    std::unique_ptr<LayerStudy> starved = make_cuda_layer_study(study, 0, {.bytes = bytes});
    try {
      starved->run(layer);
      ADD_FAILURE() << "no error with " << bytes << " bytes";
    } catch (const DeviceError& error) {
      EXPECT_NE(std::string(error.what()).find(what), std::string::npos) << error.what();
    }
  }
  EXPECT_NO_THROW(make_cuda_layer_study(study, 0)->run(layer));
}

/// A study can be made before its selectors are calibrated.
TEST(CudaLayerStudy, ReadsWhatASelectorLearntSince) {
  SKIP_WITHOUT_GPU();
  const Case c{"", bf16, 8, 2, 64, 64, 300, {299}};
  const AttentionLayer layer = make_layer(c);
  const Study study = test::study_of({test::study_selector("double_sparsity:calibrate=other", budgets())});
  const std::unique_ptr<LayerStudy> cuda = make_cuda_layer_study(study, 0), cpu = make_cpu_layer_study(study, 1);
  EXPECT_THROW(cuda->run(layer), InputError);
  test::teach(study.selectors, layer);
  const LayerResults expected = cpu->run(layer), got = cuda->run(layer);
  Comparison comparison(c);
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
}  // namespace attest
