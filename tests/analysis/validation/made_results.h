// Results files of made-up prompts, written by ResultsWriter, for tests of validation.
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "analysis/results/results_file.h"
#include "analysis/validation/prompt_set.h"
#include "analysis/validation/target.h"

namespace attest::test {

/// Where a cell is. `head` is 0 for a metric of the whole layer, `setting` is 0 for one without settings.
struct CellPlace {
  std::size_t prompt = 0;
  int layer = 0;
  std::int64_t query = 0, head = 0;
  std::size_t setting = 0;
  std::size_t selector = 0;  ///< 0, then those of MadeStudy::more_selectors
};

struct MadeMetric {
  std::string name;
  std::function<float(const CellPlace&)> value;
  MetricAxes axes = MetricAxes::query_head_setting;
  bool of_scores = false;
};

struct MadePrompt {
  std::string name, task = "t";
  std::int64_t num_tokens = 1000;
  std::vector<int> layers = {0, 1};
  int queries = 2;
};

struct MadeStudy {
  std::string path = "d.h5", model = "m";
  std::string hash = {};  ///< of the dump's content; empty: the manifest has none
  int num_layers = 2, heads = 4, kv_heads = 2;
  StudySelector selector = {.label = "ffd",
                            .name = "ffd",
                            .options_json = "{}",
                            .kind = SettingKind::delta,
                            .grid = {{3}, {5}, {7}},
                            .setting_labels = {"3", "5", "7"}};
  std::vector<StudySelector> more_selectors = {};
  std::vector<MadePrompt> prompts;
  std::vector<MadeMetric> metrics = {};
  std::vector<std::pair<std::size_t, int>> left_out = {};  ///< (prompt, layer)
};

/// One number of [0, 1) for a place, the same on every machine.
inline double noise(std::uint64_t seed, const CellPlace& at) {
  std::uint64_t x = seed * 0x9E3779B97F4A7C15u + at.prompt * 1000003 + static_cast<std::uint64_t>(at.layer) * 10007 +
                    static_cast<std::uint64_t>(at.query) * 1009 + static_cast<std::uint64_t>(at.head) * 101 +
                    at.setting;
  for (int i = 0; i < 3; ++i) {
    x ^= x >> 31;
    x *= 0xBF58476D1CE4E5B9u;
  }
  return static_cast<double>((x ^ (x >> 29)) >> 11) * 0x1p-53;
}

inline std::vector<MadePrompt> made_prompts(std::size_t count, const std::string& prefix = "p") {
  std::vector<MadePrompt> prompts;
  for (std::size_t p = 0; p < count; ++p) prompts.push_back({.name = fmt::format("{}{:03}", prefix, p)});
  return prompts;
}

/// Scores lse are written besides the metrics, different for every prompt of the file's `path`, unless they are given.
inline void write_made(const std::string& file, const MadeStudy& made) {
  Study study;
  study.lambdas = {1};
  study.selectors = {made.selector};
  study.selectors.insert(study.selectors.end(), made.more_selectors.begin(), made.more_selectors.end());
  StudyDump& dump = study.dumps.emplace_back(
      StudyDump{made.path,
                made.model,
                made.num_layers,
                {.num_query_heads = made.heads, .num_kv_heads = made.kv_heads, .head_dim = 8, .value_dim = 8},
                {}});
  for (const MadePrompt& prompt : made.prompts) {
    StudySample& sample =
        dump.samples.emplace_back(StudySample{prompt.name, prompt.task, prompt.num_tokens, prompt.layers, {}, false});
    for (int n = 0; n < prompt.queries; ++n) sample.query_positions.push_back(prompt.num_tokens - prompt.queries + n);
  }
  ResultsWriter writer(file, study);
  for (std::size_t p = 0; p < made.prompts.size(); ++p)
    for (const int layer : made.prompts[p].layers) {
      LayerResults results{.dump = 0, .sample = made.prompts[p].name, .layer = layer, .scores = {}, .selectors = {}};
      results.done = std::ranges::count(made.left_out, std::pair(p, layer)) == 0;
      const auto values_of = [&](const MadeMetric& metric, std::size_t c) {
        const bool layers = metric.axes == MetricAxes::query_setting, settings = has_settings(metric.axes);
        MetricValues values{metric.name, metric.axes, {}};
        for (std::int64_t n = 0; n < made.prompts[p].queries; ++n)
          for (std::int64_t h = 0; h < (layers ? 1 : made.heads); ++h)
            for (std::size_t s = 0; s < (settings ? study.selectors[c].grid.size() : 1); ++s)
              values.values.push_back(metric.value({p, layer, n, h, s, c}));
        return values;
      };
      if (results.done) {
        bool lse = false;
        for (std::size_t c = 0; c < study.selectors.size(); ++c) {
          SelectorLayerResults& own = results.selectors.emplace_back();
          for (const MadeMetric& metric : made.metrics) {
            if (!metric.of_scores) own.metrics.push_back(values_of(metric, c));
            if (metric.of_scores && c == 0) results.scores.push_back(values_of(metric, c));
            lse = lse || metric.name == "lse";
          }
        }
        std::uint64_t seed = made.prompts[p].name.size();
        for (const char c : made.path + made.prompts[p].name) seed = seed * 31 + static_cast<unsigned char>(c);
        if (!lse)
          results.scores.push_back(values_of(
              {"lse", [=](const CellPlace& at) { return static_cast<float>(noise(seed, at)); }, MetricAxes::query_head},
              0));
      }
      writer.add(results);
    }
  writer.finish(made.hash.empty()
                    ? "{}"
                    : fmt::format(R"({{"inputs": [{{"path": "{}", "xxh64_of_1MiB": "{}"}}]}})", made.path, made.hash));
}

/// Files that are open, and the prompts of all.
struct OpenSet {
  std::vector<ResultsFile> files;
  PromptSet set;

  explicit OpenSet(const std::vector<std::string>& paths, const PromptScope& scope = {}) {
    for (const std::string& path : paths) files.emplace_back(path);
    std::vector<const ResultsFile*> pointers;
    for (const ResultsFile& file : files) pointers.push_back(&file);
    set = gather_prompts(pointers, scope);
  }
};

inline std::vector<Target> targets_of(const std::vector<std::string>& texts) { return parse_targets(texts); }

}  // namespace attest::test
