// One number per prompt, target and setting, against loops over the cells.
#include "analysis/validation/prompt_values.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/analysis/validation/made_results.h"
#include "tests/dumps/scratch_folder.h"

namespace attest {
namespace {

using test::CellPlace;
using test::MadeStudy;
using test::noise;

constexpr float kNaNf = std::numeric_limits<float>::quiet_NaN();

/// Every seventh cell or so is not defined.
float with_gaps(std::uint64_t seed, const CellPlace& at) {
  return noise(seed + 100, at) < 0.15 ? kNaNf : static_cast<float>(noise(seed, at));
}
float recall(const CellPlace& at) { return with_gaps(1, at); }
float lse_error(const CellPlace& at) { return with_gaps(2, at); }
float keep(const CellPlace& at) { return static_cast<float>(noise(3, at)); }
float io(const CellPlace& at) { return static_cast<float>(1.2 * noise(4, at)); }
float spearman(const CellPlace& at) { return with_gaps(5, {at.prompt, at.layer, at.query, at.head, 0}); }
float recall_layer(const CellPlace& at) { return with_gaps(6, {at.prompt, at.layer, at.query, 0, at.setting}); }
/// Prompt 2 has no span.
float span_mass(const CellPlace& at) {
  return at.prompt == 2 ? kNaNf : static_cast<float>(noise(7, {at.prompt, at.layer, at.query, at.head, 0}));
}

MadeStudy made_study() {
  MadeStudy made;
  made.prompts = test::made_prompts(4);
  made.num_layers = 9;
  for (auto& prompt : made.prompts) prompt.layers = {0, 3, 8};
  made.metrics = {{"recall", recall},
                  {"lse_error", lse_error},
                  {"keep_ratio", keep},
                  {"io_ratio", io},
                  {"spearman", spearman, MetricAxes::query_head},
                  {"recall_layer", recall_layer, MetricAxes::query_setting},
                  {"span_mass", span_mass, MetricAxes::query_head, true}};
  return made;
}

/// The defined values in `layers`, of retrieval cells only if asked.
std::vector<double> cells_of(float (*metric)(const CellPlace&), std::size_t prompt, const std::vector<int>& layers,
                             std::size_t setting, bool of_layer, bool retrieval) {
  std::vector<double> values;
  for (const int layer : layers)
    for (std::int64_t n = 0; n < 2; ++n)
      for (std::int64_t h = 0; h < (of_layer ? 1 : 4); ++h) {
        const CellPlace at{prompt, layer, n, h, setting};
        if (retrieval && !(span_mass(at) >= 0.3F)) continue;
        if (const float x = metric(at); !std::isnan(x)) values.push_back(static_cast<double>(x));
      }
  return values;
}

double naive(const std::string& statistic, std::vector<double> values) {
  if (values.empty()) return std::nan("");
  std::ranges::sort(values);
  if (statistic == "min") return values.front();
  if (statistic == "max") return values.back();
  if (statistic == "mean") {
    double sum = 0;
    for (const double x : values) sum += x;
    return sum / static_cast<double>(values.size());
  }
  const double level = statistic == "median" ? 0.5 : std::stod(statistic.substr(1)) / 100;
  const double place = level * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const double next = values[std::min(below + 1, values.size() - 1)];
  return values[below] + (place - static_cast<double>(below)) * (next - values[below]);
}

void expect_number(double found, double expected, const std::string& what) {
  if (std::isnan(expected)) {
    EXPECT_TRUE(std::isnan(found)) << what << ": " << found;
  } else {
    EXPECT_NEAR(found, expected, 1e-6) << what;
  }
}

TEST(PromptValues, EveryStatisticIsItsLoop) {
  const ScratchFolder folder;
  write_made(folder.file("r.h5"), made_study());
  for (const std::vector<int>& layers : {std::vector<int>{0, 3, 8}, {3}, {0, 8}}) {
    PromptScope scope;
    for (const int layer : layers) scope.layers.emplace_back(layer, layer);
    const test::OpenSet open({folder.file("r.h5")}, scope);
    const struct {
      const char* name;
      float (*metric)(const CellPlace&);
      bool of_layer, retrieval, deficit, settings;
    } metrics[] = {{"recall", recall, false, false, false, true},
                   {"recall_deficit", recall, false, false, true, true},
                   {"lse_error", lse_error, false, false, false, true},
                   {"spearman", spearman, false, false, false, false},
                   {"recall_layer", recall_layer, true, false, false, true},
                   {"span_recall", recall, false, true, false, true}};
    for (const auto& m : metrics)
      for (const std::string statistic : {"mean", "min", "max", "median", "p1", "p50", "p90", "p99.9", "p0", "p100"}) {
        const char* sign = m.deficit || m.metric == lse_error ? "<=" : ">=";
        const std::vector<Target> targets = {parse_target(fmt::format("{}.{}{}0.5", m.name, statistic, sign))};
        const std::vector<PromptValues> values = values_of(open.set, targets, 2);
        ASSERT_EQ(values.size(), 4u);
        for (std::size_t p = 0; p < 4; ++p)
          for (std::size_t s = 0; s < 3; ++s) {
            std::vector<double> cells = cells_of(m.metric, p, layers, s, m.of_layer, m.retrieval);
            for (double& x : cells) x = m.deficit ? 1 - x : x;
            expect_number(values[p].targets[0][s], naive(statistic, cells),
                          fmt::format("{}.{} prompt {} setting {}", m.name, statistic, p, s));
          }
      }
    const std::vector<PromptValues> values = values_of(open.set, {}, 1);
    for (std::size_t p = 0; p < 4; ++p)
      for (std::size_t s = 0; s < 3; ++s) {
        EXPECT_NEAR(values[p].keep[s], naive("mean", cells_of(keep, p, layers, s, false, false)), 1e-7);
        EXPECT_NEAR(values[p].io[s], naive("mean", cells_of(io, p, layers, s, false, false)), 1e-7);
      }
  }
}

TEST(PromptValues, APromptWithoutTheMetricDoesNotCount) {
  const ScratchFolder folder;
  MadeStudy made = made_study();
  std::erase_if(made.metrics, [](const auto& m) { return m.name == "lse_error" || m.name == "io_ratio"; });
  made.metrics[0].value = [](const CellPlace& at) { return at.prompt == 1 ? kNaNf : 0.5F; };
  write_made(folder.file("r.h5"), made);
  const test::OpenSet open({folder.file("r.h5")});
  const auto values = values_of(open.set, test::targets_of({"recall>=0.5", "lse_error<=1", "span_recall>=0.5"}), 1);
  for (std::size_t s = 0; s < 3; ++s) {
    EXPECT_EQ(values[0].targets[0][s], 0.5);
    EXPECT_TRUE(std::isnan(values[1].targets[0][s]));
    EXPECT_TRUE(std::isnan(values[0].targets[1][s]));
    EXPECT_TRUE(std::isnan(values[2].targets[2][s])) << "no span";
    EXPECT_TRUE(std::isnan(values[0].io[s]));
  }
}

}  // namespace
}  // namespace attest
