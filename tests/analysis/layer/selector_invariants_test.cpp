// Properties that every selector must have on every case, independent of its formulas.
#include <gtest/gtest.h>

#include "tests/analysis/studies.h"
#include "tests/cases.h"
#include "tests/near.h"

namespace attest::test {
namespace {

constexpr double kOrderOfSums = 1e-6;  // results are float32
constexpr double kInf = std::numeric_limits<double>::infinity();

/// Every selector without dense layers, in the variants that take different code paths.
const std::vector<std::string> kSelectors =
    with_all_other_selectors({"ffd",
                              "ffd:block=32,gqa=per_head",
                              "ffd:scale=sequence,block=16",
                              "ffd:rule=topk,block=32",
                              "ffd:rule=topp,block=32",
                              "ffd:scan=exact,block=64",
                              "quest:dense_layers=0",
                              "quest:dense_layers=0,preset=kernel,gqa=shared",
                              "kivi:group=16",
                              "kv_cache:k=fp8_e4m3,v=fp8_e5m2,k_scale=amax_head,v_scale=amax",
                              "kv_cache:k=nvfp4,v=nvfp4_4over6",
                              "kv_cache:v=nvfp4,v_scale=modelopt",
                              "ffd:cache=nvfp4",
                              "ffd:scan=exact,block=64,cache=fp8_e4m3",
                              "quest:dense_layers=0,cache=fp8_e4m3,cache_scale=amax_head",
                              "kivi:group=16,cache=fp8_e5m2",
                              "topk:cache=fp8_e4m3",
                              "topp:cache=native+nvfp4",
                              "sparq:cache=fp8_e4m3+native",
                              "twilight:dense_layers=0,base_budget=100",
                              "twilight:dense_layers=0,base=none,weights=estimated",
                              "twilight:dense_layers=0,rule=reference",
                              "streaming_llm",
                              "topk",
                              "topk:gqa=union,granularity=block,block=32",
                              "topp",
                              "topp:gqa=union",
                              "topdelta",
                              "topdelta:granularity=block,block=16",
                              "sparq",
                              "sparq:score=softmax,mean_value=off,local=0",
                              "sparq:count=paper,rank=64,local=1",
                              "double_sparsity:dense_layers=0,calibrate=other",
                              "double_sparsity:dense_layers=0,calibrate=other,channel=k,bits=16",
                              "sale:dense_below=0",
                              "sale:dense_below=100,key_scale=token",
                              "skip_softmax:tile=32",
                              "skip_softmax:tile=16,splits=3,gqa=per_head",
                              "skip_softmax:tile=64,unit=factor",
                              "imported:file=own.h5,dataset=tokens",
                              "imported:file=own.h5,dataset=tokens,rule=topp,gqa=union,units=ranks",
                              "imported:file=own.h5,dataset=tokens,rule=topdelta,sink=4,local=32,scan_bytes=2",
                              "imported:file=own.h5,dataset=blocks,granularity=block,block=16"});

std::vector<Setting> grid_of(SettingKind kind) {
  switch (kind) {
    case SettingKind::delta:
      return {{5}, {0}, {kInf}, {2}, {7.5}, {2}};
    case SettingKind::budget:
      return {{50, true}, {64}, {16}, {1.5, true}, {1}, {100, true}, {200}};
    case SettingKind::p:
      return {{0.85}, {1}, {0.3}, {0.999}, {0.85}};
    case SettingKind::factor:
      return {{100}, {1}, {3000}, {10}, {1}};
    case SettingKind::none:
      break;
  }
  return {Setting{}};
}

/// The selectors with their grids. Those that learn are calibrated with another sample of the case.
std::vector<StudySelector> all_of(const std::vector<std::string>& names, const Case& c) {
  std::vector<StudySelector> selectors;
  for (const std::string& name : names)
    selectors.push_back(study_selector(name, grid_of(parse_selector(name)->setting_kind())));
  calibrate_all(selectors, make_layer(c, kCalibrationSeed));
  return selectors;
}

TEST(SelectorInvariants, ResultsDoNotDependOnThreads) {
  for (const Case& c : cases()) {
    const std::vector<StudySelector> selectors = all_of(kSelectors, c);
    const AttentionLayer layer = make_layer(c);
    expect_same_values(run_layer(selectors, layer, 1), run_layer(selectors, layer, 3), c.name);
  }
}

TEST(SelectorInvariants, ASweepEqualsItsSettingsOneByOne) {
  for (const Case& c : cases()) {
    const std::vector<StudySelector> selectors = all_of(kSelectors, c);
    const AttentionLayer layer = make_layer(c);
    const LayerResults together = run_layer(selectors, layer);
    for (std::size_t i = 0; i < 7; ++i) {
      std::vector<StudySelector> single = selectors;
      for (StudySelector& s : single) s.grid = {s.grid[std::min(i, s.grid.size() - 1)]};
      const LayerResults alone = run_layer(single, layer);
      for (std::size_t s = 0; s < selectors.size(); ++s) {
        const std::size_t settings = selectors[s].grid.size(), at = std::min(i, settings - 1);
        for (const MetricValues& m : alone.selectors[s].metrics) {
          if (m.axes != MetricAxes::query_head_setting && m.axes != MetricAxes::query_setting) continue;
          const std::vector<float>& swept = metric(together.selectors[s].metrics, m.name).values;
          const bool counted = m.name == "keep_ratio" || m.name == "io_ratio" || m.name == "salient_hit_rate" ||
                               m.name == "block_keep_ratio";
          for (std::size_t cell = 0; cell < m.values.size(); ++cell) {
            const float a = swept[cell * settings + at], b = m.values[cell];
            ASSERT_TRUE(near_metric(a, b, counted ? 0 : kOrderOfSums))
                << c.name << ", " << selectors[s].label << ", " << m.name << ", setting " << at;
          }
        }
      }
    }
  }
}

TEST(SelectorInvariants, LargerSettingsKeepMore) {
  for (const Case& c : cases()) {
    const AttentionLayer layer = make_layer(c);
    const std::vector<StudySelector> selectors = all_of(kSelectors, c);
    const LayerResults results = run_layer(selectors, layer);
    for (std::size_t s = 0; s < selectors.size(); ++s) {
      if (!selectors[s].selector->monotone()) continue;
      const std::size_t settings = selectors[s].grid.size();
      for (std::size_t cell = 0; cell < metric(results.selectors[s].metrics, "recall").values.size() / settings;
           ++cell) {
        const std::int64_t query = static_cast<std::int64_t>(cell) / layer.shape.num_query_heads;
        const std::int64_t position = layer.query_positions[static_cast<std::size_t>(query)];
        const std::int64_t visible = c.window > 0 ? std::min(c.window, position + 1) : position + 1;
        for (int given : {0, 1}) {
          const AscendingGrid grid = ascending(*selectors[s].selector, selectors[s].grid, visible);
          const std::vector<float>& values =
              metric(results.selectors[s].metrics, given == 0 ? "mass_recall" : "keep_ratio").values;
          for (std::size_t i = 1; i < settings; ++i)
            ASSERT_GE(values[cell * settings + static_cast<std::size_t>(grid.given_index[i])],
                      values[cell * settings + static_cast<std::size_t>(grid.given_index[i - 1])])
                << c.name << ", " << selectors[s].label;
        }
      }
    }
  }
}

// Quest's preset `evaluation` is not tested: it drops a page if 16 does not divide L. (So does `kernel` with a budget
// of exactly L.)
TEST(SelectorInvariants, KeepingEveryTokenGivesExactResults) {
  const std::vector<std::pair<std::string, Setting>> dense = {
      {"ffd:residual=exact", {kInf}},
      {"ffd:residual=exact,rule=topk", {1e9}},
      {"quest:dense_layers=0,preset=kernel", {1e9}},
      {"streaming_llm", {100, true}},
      {"topk", {1e9}},
      {"topk:granularity=block,block=1", {100, true}},
      {"topdelta", {kInf}},
      {"topdelta:gqa=union", {kInf}},
      {"ffd:scan=exact", {kInf}},
      {"sparq", {100, true}},
      {"sparq:count=paper", {1e9}},
      {"double_sparsity:dense_layers=0,calibrate=other", {1e9}},
      {"sale:dense_below=1000", {0}},
      {"sale:dense_below=0", {kInf}},
      {"skip_softmax", {kInf}},
      {"skip_softmax:splits=1000000,tile=1", {0}},
      {"skip_softmax:unit=factor", {1e9}},
      {"imported:file=own.h5,dataset=tokens", {1e9}},
      {"imported:file=own.h5,dataset=tokens,local=1000", {1}},
      {"imported:file=own.h5,dataset=tokens,rule=topdelta", {kInf}}};
  for (const Case& c : cases()) {
    std::vector<StudySelector> selectors;
    for (const auto& [name, setting] : dense) selectors.push_back(study_selector(name, {setting}));
    calibrate_all(selectors, make_layer(c, kCalibrationSeed));
    const LayerResults results = run_layer(selectors, make_layer(c));
    for (std::size_t s = 0; s < selectors.size(); ++s) {
      const auto& metrics = results.selectors[s].metrics;
      for (float x : metric(metrics, "keep_ratio").values) EXPECT_EQ(x, 1) << c.name << ", " << dense[s].first;
      for (float x : metric(metrics, "recall").values) EXPECT_NEAR(x, 1, 1e-7) << c.name << ", " << dense[s].first;
      for (float x : metric(metrics, "lse_error").values) EXPECT_NEAR(x, 0, 1e-12) << c.name << ", " << dense[s].first;
      for (float x : metric(metrics, "output_error").values)  // relative to an output that may be 0
        EXPECT_TRUE(near_metric(x, c.pattern == Pattern::zeros ? std::nan("") : 0, 1e-12))
            << c.name << ", " << dense[s].first;
      for (float x : metric(metrics, "dropped_gap").values) EXPECT_TRUE(std::isnan(x));
    }
  }
}

// No kept set has more exact mass than the oracle's kept set of the same size.
TEST(SelectorInvariants, TheOracleHoldsTheMostMassForItsTokens) {
  std::vector<std::string> others = kSelectors;
  std::erase_if(others, [](const std::string& name) { return name == "topk"; });
  for (const Case& c : cases()) {
    if (c.window > 0 || c.positions.size() > 4) continue;
    const std::vector<StudySelector> selectors = all_of(others, c);
    for (std::int64_t position : c.positions) {
      Case one = c;
      one.positions = {position};
      const AttentionLayer layer = make_layer(one);
      std::vector<Setting> counts;
      for (std::int64_t k = 1; k <= position + 1; ++k) counts.push_back({static_cast<double>(k)});
      const LayerResults results = run_layer(selectors, layer),
                         oracle = run_layer({study_selector("topk", counts)}, layer);
      const std::vector<float>& best = metric(oracle.selectors[0].metrics, "mass_recall").values;
      for (std::size_t s = 0; s < selectors.size(); ++s) {
        const std::vector<float>&mass = metric(results.selectors[s].metrics, "mass_recall").values,
              &kept = metric(results.selectors[s].metrics, "keep_ratio").values;
        for (std::size_t cell = 0; cell < mass.size(); ++cell) {
          const std::size_t head = cell / selectors[s].grid.size();
          const auto k = static_cast<std::size_t>(std::lround(kept[cell] * static_cast<float>(position + 1)));
          const float maximum = k == 0 ? 0 : best[head * counts.size() + k - 1];
          EXPECT_LE(mass[cell], maximum + 1e-6f) << c.name << ", " << others[s];
        }
      }
    }
  }
}

// A query's results do not depend on which other queries are studied with it, nor on how rows are cut into batches.
TEST(SelectorInvariants, QueriesAreIndependent) {
  for (const Case& c : cases()) {
    if (c.positions.size() < 2) continue;
    const std::vector<StudySelector> selectors = all_of(kSelectors, c);
    const AttentionLayer layer = make_layer(c);
    const LayerResults all = run_layer(selectors, layer);
    for (std::size_t n : {std::size_t{0}, c.positions.size() / 2}) {
      const LayerResults alone = run_layer(selectors, with_one_query(make_layer(c), n));
      for (std::size_t s = 0; s < selectors.size(); ++s)
        for (const MetricValues& m : alone.selectors[s].metrics) {
          const std::vector<float>& values = metric(all.selectors[s].metrics, m.name).values;
          const auto first = values.begin() + static_cast<std::ptrdiff_t>(n * m.values.size());
          EXPECT_TRUE(same_values({first, first + static_cast<std::ptrdiff_t>(m.values.size())}, m.values))
              << c.name << ", query " << n << ", " << selectors[s].label << ", " << m.name;
        }
    }
  }
}

// A sliding window is treated as a separate sequence: the layer cut at the window's first key gives the same results.
// Exception: block estimates from a file, whose blocks count from token 0 of the sample.
TEST(SelectorInvariants, AWindowIsASequenceOfItsOwn) {
  const Case whole{"", 1, 2, 64, 64, ElementType::bfloat16, {420}, Pattern::peaked, 0.0, 300};
  std::vector<std::string> names = kSelectors;
  EXPECT_EQ(std::erase_if(names, [](const std::string& name) { return name.find("dataset=blocks") != name.npos; }), 1u);
  const std::vector<StudySelector> selectors = all_of(names, whole);
  const AttentionLayer windowed = make_layer(whole);
  AttentionLayer cut = make_layer(whole);
  const std::size_t skipped = 121 * 64 * 2;  // tokens before 420 - 300 + 1, in bytes
  std::copy(windowed.k.data() + skipped, windowed.k.data() + windowed.k.size(), cut.k.data());
  std::copy(windowed.v.data() + skipped, windowed.v.data() + windowed.v.size(), cut.v.data());
  cut.k.resize(300 * 64 * 2);
  cut.v.resize(300 * 64 * 2);
  LayerBuffer& estimates = cut.estimates[0].values;  // float32, two heads
  const LayerBuffer& of_all = windowed.estimates[0].values;
  estimates.resize(2 * 300 * sizeof(float));
  for (std::size_t h = 0; h < 2; ++h)
    std::copy_n(of_all.data() + (h * 421 + 121) * sizeof(float), 300 * sizeof(float),
                estimates.data() + h * 300 * sizeof(float));
  cut.estimates[0].num_entries = 300;
  cut.num_tokens = 300;
  cut.query_positions = {299};
  cut.sliding_window = 0;
  expect_same_values(run_layer(selectors, windowed), run_layer(selectors, cut), "window");
}

TEST(SelectorInvariants, DenseLayersAreExactAndHaveNoEstimate) {
  const std::vector<StudySelector> selectors =
      all_of({"quest", "twilight", "ffd:dense_layers=6", "kivi:dense_layers=6", "sparq:dense_layers=2",
              "double_sparsity:calibrate=other", "sale:dense_layers=6", "exact"},
             cases()[0]);
  const std::size_t last = selectors.size() - 1;  // exact
  AttentionLayer layer = make_layer(cases()[0]), sample = make_layer(cases()[0], kCalibrationSeed);
  for (int number : {1, 2, 6}) {  // all_of() has calibrated layer 5
    sample.layer = number;
    calibrate_all(selectors, sample);
  }
  for (int number : {1, 2, 5, 6}) {
    layer.layer = number;
    const LayerResults results = run_layer(selectors, layer);
    for (std::size_t s = 0; s < last; ++s) {
      const bool dense = number < selectors[s].selector->dense_layers();
      const auto& metrics = results.selectors[s].metrics;
      EXPECT_EQ(results.selectors[s].dense, dense) << selectors[s].label << ", layer " << number;
      EXPECT_EQ(std::isnan(metric(metrics, "spearman").values[0]), dense);
      EXPECT_EQ(std::isnan(metric(metrics, "scan_error_tail").values[0]), dense);
      if (!dense) continue;
      for (const char* name : {"recall", "keep_ratio", "io_ratio", "mass_recall", "lse_error", "dropped_gap"}) {
        const std::vector<float>&found = metric(metrics, name).values,
              &exact = metric(results.selectors[last].metrics, name).values;
        for (std::size_t i = 0; i < found.size(); ++i)
          EXPECT_TRUE(same_values({found[i]}, {exact[i / selectors[s].grid.size()]}))
              << selectors[s].label << ", " << name;
      }
      if (selectors[s].selector->name() != "ffd") continue;
      for (const char* name : {"block_keep_ratio", "pseudo_max_gap_exact", "pseudo_max_gap_all"})
        for (float x : metric(metrics, name).values) EXPECT_TRUE(std::isnan(x)) << name;
    }
    EXPECT_FALSE(results.selectors[last].dense);
  }
}

}  // namespace
}  // namespace attest::test
