// Units: losses and assembled prompts against loops over the cells.
#include "analysis/validation/units.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "analysis/validation/unit_validation.h"
#include "dumps/base/error.h"
#include "tests/analysis/validation/made_results.h"
#include "tests/dumps/scratch_folder.h"
#include "tests/message_of.h"

namespace attest {
namespace {

using test::CellPlace;
using test::noise;
using ::testing::HasSubstr;

constexpr float kNaNf = std::numeric_limits<float>::quiet_NaN();

float recall(const CellPlace& at) {
  return noise(51, {at.prompt, at.layer, at.query, at.head, 0}) < 0.1 ? kNaNf : static_cast<float>(noise(1, at));
}
float lse_error(const CellPlace& at) { return static_cast<float>(noise(2, at)); }
float keep(const CellPlace& at) { return static_cast<float>(noise(3, at)); }
float io(const CellPlace& at) { return static_cast<float>(noise(4, at)); }
float spearman(const CellPlace& at) {
  return static_cast<float>(noise(5, {at.prompt, at.layer, at.query, at.head, 0}));
}
float recall_layer(const CellPlace& at) {
  return static_cast<float>(noise(6, {at.prompt, at.layer, at.query, 0, at.setting}));
}
float span_mass(const CellPlace& at) {
  return static_cast<float>(noise(7, {at.prompt, at.layer, at.query, at.head, 0}));
}

constexpr int kLayers[] = {1, 4};

class Units : public ::testing::Test {
 protected:
  Units() {
    test::MadeStudy made;
    made.num_layers = 6;
    made.heads = 6;
    made.prompts = test::made_prompts(5);
    for (std::size_t p = 0; p < made.prompts.size(); ++p) {
      made.prompts[p].layers = {0, 1, 4};
      made.prompts[p].task = p % 2 == 0 ? "even" : "odd";
    }
    made.metrics = {{"recall", recall},
                    {"lse_error", lse_error},
                    {"keep_ratio", keep},
                    {"io_ratio", io},
                    {"spearman", spearman, MetricAxes::query_head},
                    {"recall_layer", recall_layer, MetricAxes::query_setting},
                    {"span_mass", span_mass, MetricAxes::query_head, true}};
    write_made(folder_.file("r.h5"), made);
    open_.emplace(std::vector<std::string>{folder_.file("r.h5")}, PromptScope{{}, {}, {{1, 4}}});
  }
  const PromptSet& set() const { return open_->set; }

  /// The number of a prompt if the cell of (row, head) is at settings[row][head]; heads of dense cells have `dense`, or
  /// are left out.
  static double plain(const Target& target, float (*metric)(const CellPlace&), std::size_t prompt,
                      const std::vector<std::vector<std::size_t>>& settings, std::optional<float> dense, bool of_layer,
                      bool retrieval) {
    std::vector<float> cells;
    for (std::size_t row = 0; row < 2; ++row)
      for (std::int64_t n = 0; n < 2; ++n)
        for (std::int64_t h = 0; h < (of_layer ? 1 : 6); ++h) {
          const std::size_t setting = settings[row][static_cast<std::size_t>(h)];
          const CellPlace at{prompt, kLayers[row], n, h, setting == kDense ? 0 : setting};
          if (retrieval && !(span_mass(at) >= 0.3F)) continue;
          if (setting != kDense)
            cells.push_back(metric(at));
          else if (dense && !std::isnan(metric(at)))
            cells.push_back(*dense);
        }
    return statistic_of(cells, target.quantity);
  }

  ScratchFolder folder_;
  std::optional<test::OpenSet> open_;
};

TEST_F(Units, ByLayerAndByKvHead) {
  const auto layers = units_of(set(), UnitKind::layer, {}), heads = units_of(set(), UnitKind::kv_head, {});
  ASSERT_EQ(layers.size(), 2u);
  EXPECT_EQ(layers[1].row, 1u);
  EXPECT_EQ(layers[1].num_heads, 6);
  ASSERT_EQ(heads.size(), 4u);
  EXPECT_EQ(heads[3].row, 1u);
  EXPECT_EQ(heads[3].kv_head, 1);
  EXPECT_EQ(heads[3].first_head, 3);
  EXPECT_EQ(heads[3].num_heads, 3);
  EXPECT_THAT(
      message_of<UsageError>([&] { units_of(set(), UnitKind::kv_head, test::targets_of({"recall_layer>=0.9"})); }),
      HasSubstr("use --per layer"));
}

TEST_F(Units, AssembledPromptsAreTheirCells) {
  const struct {
    const char* text;
    float (*metric)(const CellPlace&);
    std::optional<float> dense;
    bool of_layer = false, retrieval = false;
  } cases[] = {{"recall>=0.5", recall, 1.F},
               {"recall.min>=0.5", recall, 1.F},
               {"recall.max>=0.5", recall, 1.F},
               {"recall.p90>=0.5", recall, 1.F},
               {"recall.median>=0.5", recall, 1.F},
               {"recall_deficit.p99<=0.5", recall, 1.F},
               {"recall_deficit.max<=0.5", recall, 1.F},
               {"lse_error<=0.5", lse_error, 0.F},
               {"lse_error.p10<=0.5", lse_error, 0.F},
               {"spearman>=0.5", spearman, {}},
               {"spearman.p20>=0.5", spearman, {}},
               {"io_ratio<=0.5", io, 1.F},
               {"span_recall.min>=0.5", recall, 1.F, false, true},
               {"span_recall.p30>=0.5", recall, 1.F, false, true},
               {"recall_layer>=0.5", recall_layer, 1.F, true},
               {"recall_layer.p75>=0.5", recall_layer, 1.F, true}};
  std::mt19937_64 random(1);
  for (const auto& c : cases)
    for (const UnitKind kind : {UnitKind::layer, UnitKind::kv_head}) {
      if (c.of_layer && kind == UnitKind::kv_head) continue;
      const std::vector<Target> targets = test::targets_of({c.text});
      const std::vector<Unit> units = units_of(set(), kind, targets);
      std::vector<Assignment> assignments;
      for (int a = 0; a < 12; ++a) {
        Assignment& own = assignments.emplace_back(units.size());
        for (std::size_t& setting : own) setting = random() % 4 == 3 ? kDense : random() % 3;
      }
      assignments.emplace_back(units.size(), kDense);
      for (std::size_t p = 0; p < set().prompts.size(); ++p) {
        const auto assembled = assemble(set(), p, targets, units, assignments);
        ASSERT_EQ(assembled.size(), assignments.size());
        for (std::size_t a = 0; a < assignments.size(); ++a) {
          const auto settings = settings_of_heads(set(), units, assignments[a]);
          const double expected = plain(targets[0], c.metric, p, settings, c.dense, c.of_layer, c.retrieval);
          if (std::isnan(expected)) {
            EXPECT_TRUE(std::isnan(assembled[a].targets[0])) << c.text;
          } else {
            EXPECT_NEAR(assembled[a].targets[0], expected, 1e-6) << c.text << ' ' << p << ' ' << a;
          }
          EXPECT_NEAR(assembled[a].io, plain(parse_target("io_ratio<=1"), io, p, settings, 1.F, false, false), 1e-6);
          EXPECT_NEAR(assembled[a].keep, plain(parse_target("keep_ratio<=1"), keep, p, settings, 1.F, false, false),
                      1e-6);
        }
      }
    }
}

/// One setting for every unit is that setting for the model.
TEST_F(Units, OneSettingForAllIsTheSingleSetting) {
  const std::vector<Target> targets = test::targets_of({"recall.min>=0.5", "lse_error.p90<=0.5", "span_recall>=0.2"});
  const std::vector<PromptValues> values = values_of(set(), targets, 1);
  for (const UnitKind kind : {UnitKind::layer, UnitKind::kv_head}) {
    const std::vector<Unit> units = units_of(set(), kind, targets);
    const std::vector<Assignment> all = {Assignment(units.size(), 0), Assignment(units.size(), 1),
                                         Assignment(units.size(), 2)};
    for (std::size_t p = 0; p < values.size(); ++p) {
      const auto assembled = assemble(set(), p, targets, units, all);
      for (std::size_t s = 0; s < 3; ++s)
        for (std::size_t t = 0; t < targets.size(); ++t)
          EXPECT_NEAR(assembled[s].targets[t], values[p].targets[t][s], 1e-12);
    }
  }
}

TEST_F(Units, LossesAreTheWorstAndTheMeanOverPrompts) {
  const std::vector<Target> targets = test::targets_of({"recall.min>=0.5", "lse_error<=0.25"});
  const std::vector<Unit> units = units_of(set(), UnitKind::kv_head, targets);
  const std::vector<std::size_t> prompts = {0, 2, 3};
  const UnitLosses losses = unit_losses(set(), prompts, targets, units, 2);
  for (std::size_t u = 0; u < units.size(); ++u)
    for (std::size_t s = 0; s < 3; ++s) {
      double worst = 0, mean = 0, read = 0;
      for (const std::size_t p : prompts) {
        float minimum = kNaNf;
        double errors = 0, ios = 0;
        for (std::int64_t n = 0; n < 2; ++n)
          for (std::int64_t h = units[u].first_head; h < units[u].first_head + 3; ++h) {
            const CellPlace at{p, kLayers[units[u].row], n, h, s};
            if (const float x = recall(at); !(minimum <= x) && !std::isnan(x)) minimum = x;
            errors += static_cast<double>(lse_error(at)) / 6;
            ios += static_cast<double>(io(at)) / 6;
          }
        const double a = targets[0].relative_deficit(static_cast<double>(minimum)),
                     b = targets[1].relative_deficit(errors);
        worst = std::max({worst, a, b});
        mean += (a + b) / 3;
        read += ios / 3;
      }
      EXPECT_NEAR(losses.worst[u * 3 + s], worst, 1e-6);
      EXPECT_NEAR(losses.mean[u * 3 + s], mean, 1e-6);
      EXPECT_NEAR(losses.io[u * 3 + s], read, 1e-6);
    }
}

TEST_F(Units, APromptWithoutBytesIsLeftOutOfTheirMean) {
  test::MadeStudy made;
  made.prompts = test::made_prompts(4);
  made.metrics = {{"recall", recall}, {"io_ratio", [](const CellPlace& at) { return at.prompt < 3 ? kNaNf : 0.5F; }}};
  write_made(folder_.file("io.h5"), made);
  const test::OpenSet open({folder_.file("io.h5")});
  const std::vector<Target> targets = test::targets_of({"recall>=0.5"});
  const std::vector<Unit> units = units_of(open.set, UnitKind::layer, targets);
  for (const double read : unit_losses(open.set, std::vector<std::size_t>{0, 1, 2, 3}, targets, units, 1).io)
    EXPECT_NEAR(read, 0.5, 1e-12);
}

TEST_F(Units, SplitsByTaskAndSeed) {
  const PromptSplit split = split_prompts(set(), 0.4, 7);
  EXPECT_EQ(split.choosing.size(), 2u);
  EXPECT_EQ(split.certifying.size(), 3u);
  std::vector<std::size_t> all = split.choosing;
  all.insert(all.end(), split.certifying.begin(), split.certifying.end());
  std::ranges::sort(all);
  EXPECT_EQ(all, (std::vector<std::size_t>{0, 1, 2, 3, 4})) << "each prompt in one part";
  std::ptrdiff_t even = std::ranges::count_if(split.choosing, [](std::size_t p) { return p % 2 == 0; });
  EXPECT_EQ(even, 1) << "one of each task";
  EXPECT_EQ(split_prompts(set(), 0.4, 7).choosing, split.choosing);
  bool differs = false;
  for (std::uint64_t seed = 0; seed < 20; ++seed)
    differs = differs || split_prompts(set(), 0.4, seed).choosing != split.choosing;
  EXPECT_TRUE(differs);
  EXPECT_THAT(message_of<UsageError>([&] { split_prompts(set(), 0.01, 0); }), HasSubstr("--choose"));
  EXPECT_THAT(message_of<UsageError>([&] { split_prompts(set(), 0.99, 0); }), HasSubstr("--choose"));
}

}  // namespace
}  // namespace attest
