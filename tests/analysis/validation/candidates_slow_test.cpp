// Candidates whose truth is planted, judged over and over: false certificates are at most alpha.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <random>

#include "analysis/validation/unit_validation.h"
#include "tests/analysis/validation/made_results.h"
#include "tests/dumps/scratch_folder.h"

namespace attest {
namespace {

using test::CellPlace;

constexpr double kAlpha = 0.05, kBeta = 0.1;
constexpr int kTrials = 100, kLayers = 6;
constexpr std::size_t kPrompts = 60, kCandidates = 4;

/// Each layer of a prompt misses at candidate c with probability kMisses[c], whatever the others do: the second is the
/// dearest mistake, so that the order given is not that of the losses.
constexpr double kMisses[kCandidates] = {0.0005, 0.04, 0.008, 0.02};

/// The share of prompts in which a layer misses.
double share_of(const std::vector<std::size_t>& layers) {
  double none = 1;
  for (const std::size_t candidate : layers)
    if (candidate != kDense) none *= 1 - kMisses[candidate];
  return 1 - none;
}

test::OpenSet drawn(const std::string& path, std::uint64_t seed) {
  test::MadeStudy study{.num_layers = kLayers, .heads = 1, .kv_heads = 1, .prompts = test::made_prompts(kPrompts)};
  std::vector<std::string> labels = {"a", "b", "c", "d"};
  const auto labelled = [](const std::string& label) {
    return StudySelector{.label = label, .name = label, .options_json = "{}", .grid = {{}}, .setting_labels = {""}};
  };
  study.selector = labelled(labels[0]);
  for (std::size_t c = 1; c < kCandidates; ++c) study.more_selectors.push_back(labelled(labels[c]));
  for (test::MadePrompt& prompt : study.prompts) {
    prompt.queries = 1;
    prompt.layers.clear();
    for (int layer = 0; layer < kLayers; ++layer) prompt.layers.push_back(layer);
  }
  // Deficits have a Pareto tail, so that the choosing part sees which layers are better there, by chance alone.
  study.metrics = {{"recall",
                    [=](const CellPlace& at) {
                      const double u = test::noise(seed, at) + 1e-12;
                      return static_cast<float>(1 - std::min(1.0, 0.1 * kMisses[at.selector] / u));
                    }},
                   {"io_ratio", [](const CellPlace& at) { return 1 - 0.2F * static_cast<float>(at.selector); }}};
  // The selector is part of the place: noise() knows setting alone.
  for (test::MadeMetric& metric : study.metrics) {
    const auto of_place = metric.value;
    metric.value = [of_place](CellPlace at) {
      at.setting = at.selector;
      return of_place(at);
    };
  }
  test::write_made(path, study);
  return test::OpenSet({path}, {.candidates = labels});
}

void expect_at_most_alpha(const char* what, int wrong) {
  std::printf("%-44s %3d of %d\n", what, wrong, kTrials);
  EXPECT_LE(wrong, kTrials * kAlpha + 4 * std::sqrt(kTrials * kAlpha * (1 - kAlpha)));
}

TEST(CandidatesOfNoise, FalseCertificates) {
  const ScratchFolder folder;
  const std::string path = folder.file("noise.h5");
  int wrong_single = 0, wrong_family = 0, wrong_budget = 0, certified = 0, chosen_is_wrong = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    const test::OpenSet open = drawn(path, static_cast<std::uint64_t>(trial) + 1);
    ValidationRequest request{.targets = test::targets_of({"recall.min>=0.9"}), .guarantee = {.max_violating = kBeta}};
    const Validation single = validate(open.set, request);
    if (single.passed)
      wrong_single += share_of(std::vector<std::size_t>(kLayers, single.about().setting)) > kBeta ? 1 : 0;
    for (const bool budget : {false, true}) {
      UnitRequest units{.kind = UnitKind::layer, .seed = static_cast<std::uint64_t>(trial)};
      if (budget) units.io_budget = 0.55;
      const UnitValidation found = validate_units(open.set, request, units);
      const bool wrong = share_of(found.about().assignment) > kBeta;
      if (!found.passed) continue;
      (budget ? wrong_budget : wrong_family) += wrong ? 1 : 0;
      certified += 1;
    }
    // What the choosing part alone would take: the cheapest assignment without a miss there.
    const PromptSplit split = split_prompts(open.set, 0.5, static_cast<std::uint64_t>(trial));
    const std::vector<Unit> layers = units_of(open.set, UnitKind::layer, request.targets);
    const UnitLosses losses = unit_losses(open.set, split.choosing, request.targets, layers, 1);
    std::vector<std::size_t> taken(kLayers, 0);
    for (std::size_t y = 0; y < kLayers; ++y)
      for (std::size_t c = 0; c < kCandidates; ++c)
        if (losses.worst[y * kCandidates + c] <= 1) taken[y] = c;
    chosen_is_wrong += share_of(taken) > kBeta ? 1 : 0;
  }
  expect_at_most_alpha("one candidate for all, wrongly certified", wrong_single);
  expect_at_most_alpha("a candidate per layer, wrongly certified", wrong_family);
  expect_at_most_alpha("within an io budget, wrongly certified", wrong_budget);
  std::printf("certified per layer or within the budget: %d; the choosing part alone would be wrong %d times\n",
              certified, chosen_is_wrong);
  EXPECT_GT(certified, 0);
  EXPECT_GT(chosen_is_wrong, kTrials / 4) << "the simulation would not see a choosing part that certifies";
}

}  // namespace
}  // namespace attest
