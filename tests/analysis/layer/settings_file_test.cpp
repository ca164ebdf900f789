// Studies with a settings_file: every KV head is as if it were studied alone, at its own delta; a dense one is `exact`.
#include "kernels/selectors/settings_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "dumps/base/json.h"
#include "tests/analysis/studies.h"
#include "tests/cases.h"
#include "tests/dumps/scratch_folder.h"
#include "tests/near.h"

namespace attest::test {
namespace {

constexpr int kLayer = 5;  // of make_layer()
constexpr double kInf = std::numeric_limits<double>::infinity();

std::string write_settings(const ScratchFolder& folder, const HeadSettings& settings) {
  Json document = {{"format", kRecommendationFormat}, {"format_version", kRecommendationVersion}, {"setting", "delta"}};
  document.update(head_settings_json(settings));
  return folder.write("rec.json", document.dump());
}

/// "ffd" and a file: "ffd:settings_file=FILE".
std::string with_file(const std::string& text, const std::string& path) {
  return text + (text.find(':') == std::string::npos ? ":" : ",") + "settings_file=" + path;
}

/// More than one KV head, with and without groups, windows and sinks.
std::vector<Case> cases_with_heads() {
  std::vector<Case> chosen;
  for (Case c : cases()) {
    c.kv_heads = std::max(c.kv_heads, 3);
    if (c.name == "llama" || c.name == "own_heads" || c.name == "group_of_7" || c.name == "window" ||
        c.name == "sinks" || c.name == "short")
      chosen.push_back(c);
  }
  return chosen;
}

const std::vector<std::string> kSelectors = {"ffd",
                                             "ffd:gqa=per_head,sub_block=32",
                                             "ffd:delta_unit=log2,block=64",
                                             "ffd:delta_unit=unscaled,block=64,residual=none",
                                             "topdelta",
                                             "topdelta:gqa=union,granularity=block,block=32",
                                             "skip_softmax:tile=32",
                                             "skip_softmax:tile=16,gqa=per_head,splits=2"};

/// Head 0 has a delta of its own, head 1 is dense, the others are the layer's.
HeadSettings mixed() {
  HeadSettings settings{.fallback = {9, false}};
  settings.layers[kLayer] = {.fallback = HeadSetting{0.75, false}, .kv_heads = {{0, {2.5, false}}, {1, {0, true}}}};
  return settings;
}

/// Compares the cells of a KV head: [N, Hq, per_row].
void expect_head(const MetricValues& found, const MetricValues& alone, const AttentionLayer& layer, int kv_head,
                 const std::string& what) {
  ASSERT_EQ(found.name, alone.name);
  ASSERT_EQ(found.values.size(), alone.values.size()) << what;
  const auto heads = static_cast<std::size_t>(layer.shape.num_query_heads),
             group = static_cast<std::size_t>(layer.shape.group());
  const std::size_t per_row = found.values.size() / (static_cast<std::size_t>(layer.num_queries()) * heads);
  const std::size_t first = static_cast<std::size_t>(kv_head) * group;
  for (std::size_t cell = 0; cell < found.values.size(); ++cell) {
    const std::size_t head = cell / per_row % heads;
    if (head < first || head >= first + group) continue;
    ASSERT_TRUE(near_metric(found.values[cell], alone.values[cell], 0))
        << what << ", " << found.name << ", cell " << cell;
  }
}

const MetricValues* find(const std::vector<MetricValues>& metrics, const std::string& name) {
  for (const MetricValues& m : metrics)
    if (m.name == name) return &m;
  return nullptr;
}

bool is_of_heads(const MetricValues& m) { return m.axes != MetricAxes::query_setting; }

TEST(SettingsFileStudy, EachHeadIsAsIfStudiedAtItsOwnDelta) {
  const ScratchFolder folder;
  const HeadSettings settings = mixed();
  const std::string path = write_settings(folder, settings);
  const std::vector<Setting> grid{{1}, {0}, {4}, {kInf}};
  std::int64_t partial = 0;
  for (const Case& c : cases_with_heads()) {
    const AttentionLayer layer = make_layer(c);
    std::vector<StudySelector> selectors;
    for (const std::string& text : kSelectors) selectors.push_back(study_selector(with_file(text, path), grid));
    const LayerResults results = run_layer(selectors, layer);
    for (int head = 0; head < c.kv_heads; ++head) {
      const HeadSetting own_setting = settings.at(kLayer, head);
      std::vector<Setting> own = grid;
      for (Setting& setting : own) setting.value += own_setting.value;
      std::vector<StudySelector> alone;
      for (const std::string& text : kSelectors)
        alone.push_back(own_setting.dense ? study_selector("exact", {Setting{}}) : study_selector(text, own));
      const LayerResults expected = run_layer(alone, layer);
      for (std::size_t s = 0; s < kSelectors.size(); ++s) {
        const std::string what = c.name + ", " + kSelectors[s] + ", KV head " + std::to_string(head);
        EXPECT_FALSE(results.selectors[s].dense) << what;
        for (const MetricValues& m : results.selectors[s].metrics) {
          if (!is_of_heads(m) || own_setting.dense) continue;
          const MetricValues* other = find(expected.selectors[s].metrics, m.name);
          ASSERT_NE(other, nullptr) << m.name;
          expect_head(m, *other, layer, head, what);
          if (m.name == "keep_ratio") partial += std::ranges::count_if(m.values, [](float keep) { return keep < 1; });
        }
        if (::testing::Test::HasFatalFailure()) return;
      }
    }
  }
  EXPECT_GT(partial, 1000) << "the deltas of the heads decide little";
}

TEST(SettingsFileStudy, ADenseHeadIsExact) {
  const ScratchFolder folder;
  const std::string path = write_settings(folder, mixed());
  for (const Case& c : cases_with_heads()) {
    const AttentionLayer layer = make_layer(c);
    std::vector<StudySelector> selectors;
    for (const std::string& text : kSelectors) selectors.push_back(study_selector(with_file(text, path), {{0}}));
    selectors.push_back(study_selector("exact", {}));
    const LayerResults results = run_layer(selectors, layer);
    for (std::size_t s = 0; s < kSelectors.size(); ++s)
      for (const MetricValues& m : results.selectors[s].metrics) {
        if (!is_of_heads(m)) continue;
        const MetricValues* exact = find(results.selectors.back().metrics, m.name);
        MetricValues undefined = m;
        std::ranges::fill(undefined.values, NAN);
        expect_head(m, exact != nullptr ? *exact : undefined, layer, 1, c.name + ", " + kSelectors[s]);
        if (::testing::Test::HasFatalFailure()) return;
      }
  }
}

// What a setting of the whole model gives, a file with that default gives, too; the grid adds to it.
TEST(SettingsFileStudy, OneDefaultIsOneDelta) {
  const ScratchFolder folder;
  const std::string path = write_settings(folder, {.fallback = {1.5, false}});
  const Case c = cases_with_heads().front();
  const AttentionLayer layer = make_layer(c);
  for (const std::string& text : kSelectors) {
    const LayerResults with = run_layer({study_selector(with_file(text, path), {{3}, {0}})}, layer);
    const LayerResults without = run_layer({study_selector(text, {{4.5}, {1.5}})}, layer);
    expect_same_values(with, without, text);
    EXPECT_FALSE(with.selectors[0].dense);
  }
}

TEST(SettingsFileStudy, ALayerIsMarkedIfAllItsHeadsAreDense) {
  const ScratchFolder folder;
  HeadSettings settings{.fallback = {3, false}};
  settings.layers[kLayer].fallback = HeadSetting{0, true};
  const Case c = cases_with_heads().front();
  const AttentionLayer layer = make_layer(c);
  const std::string file = write_settings(folder, settings);
  for (const std::string& text : kSelectors) {
    const LayerResults found =
        run_layer({study_selector(with_file(text, file), {{0}, {5}}), study_selector("exact", {})}, layer);
    EXPECT_TRUE(found.selectors[0].dense) << text;
    for (float x : metric(found.selectors[0].metrics, "recall").values) EXPECT_EQ(x, 1);
    for (float x : metric(found.selectors[0].metrics, "recall_layer").values) EXPECT_EQ(x, 1);
    for (float x : metric(found.selectors[0].metrics, "io_ratio").values) EXPECT_EQ(x, 1);
    for (float x : metric(found.selectors[0].metrics, "lse_error").values) EXPECT_EQ(x, 0);
  }
  settings.layers[kLayer].kv_heads[0] = {100, false};
  const std::string other = write_settings(folder, settings);
  EXPECT_FALSE(run_layer({study_selector(with_file("topdelta", other), {{0}})}, layer).selectors[0].dense);
}

// Outputs of dense heads are exact in the concatenation, too.
TEST(SettingsFileStudy, DenseHeadsImproveTheLayersOutput) {
  const ScratchFolder folder;
  const Case c = cases_with_heads().front();
  const AttentionLayer layer = make_layer(c);
  HeadSettings settings{.fallback = {0, false}};
  const auto recall = [&] {
    const std::string path = write_settings(folder, settings);
    return metric(run_layer({study_selector(with_file("topdelta", path), {{0}})}, layer).selectors[0].metrics,
                  "recall_layer")
        .values;
  };
  const std::vector<float> sparse = recall();
  settings.layers[kLayer].kv_heads[1] = {0, true};
  const std::vector<float> mixed = recall();
  for (std::size_t i = 0; i < sparse.size(); ++i) EXPECT_GT(mixed[i], sparse[i]);
}

}  // namespace
}  // namespace attest::test
