// Features of the combinations, and their cross-validation.
#include "analysis/outcomes/combination.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>

#include "analysis/statistics/logistic.h"
#include "analysis/statistics/shuffle.h"
#include "kernels/base/not_defined.h"

namespace attest {
namespace {

constexpr double kMin = 1e-6, kMax = 1e6;  ///< of deficits and errors, before their logarithm

double feature_of(const Predictor& predictor, double value) {
  const auto logarithm = [](double x) { return std::log10(std::clamp(x, kMin, kMax)); };
  switch (predictor.scale) {
    case Predictor::Scale::logarithmic:
      return logarithm(value);
    case Predictor::Scale::deficit:
      return logarithm(1 - value);
    case Predictor::Scale::plain:
      break;
  }
  return std::clamp(value, -kMax, kMax);
}

/// Indices of the combination's predictors that there are.
std::vector<std::size_t> members_of(const OutcomeRuns& all, const Combination& combination) {
  std::vector<std::size_t> members;
  for (const std::string& name : combination.predictors)
    if (const std::optional<std::size_t> found = all.find(name)) members.push_back(*found);
  return members;
}

/// NaN if one of the values is.
std::vector<double> features_of(const OutcomeRuns& all, std::span<const std::size_t> members, std::size_t run) {
  std::vector<double> features;
  for (const std::size_t p : members) features.push_back(feature_of(all.predictors[p], all.runs[run].values[p]));
  return features;
}

bool is_defined(std::span<const double> features) {
  return std::ranges::none_of(features, [](double x) { return std::isnan(x); });
}

}  // namespace

const std::vector<Combination>& all_combinations() {
  static const std::vector<Combination> list = {
      {"combination_spans", true, {"span_error.max", "recall_layer.min", "lse_error.max"}},
      {"combination", false, {"lse_error.max", "recall_layer.min"}}};
  return list;
}

const Combination* find_combination(std::string_view name) {
  const auto found = std::ranges::find(all_combinations(), name, &Combination::name);
  return found == all_combinations().end() ? nullptr : &*found;
}

std::vector<double> predicted(const OutcomeRuns& all, const Combination& combination, std::span<const std::size_t> from,
                              std::span<const std::size_t> of) {
  const std::vector<std::size_t> members = members_of(all, combination);
  std::vector<double> chances(of.size(), kNaN), features;
  std::vector<std::uint8_t> failed;
  std::vector<std::size_t> used;
  for (const std::size_t run : from) {
    const std::vector<double> one = features_of(all, members, run);
    if (!is_defined(one)) continue;
    features.insert(features.end(), one.begin(), one.end());
    failed.push_back(all.runs[run].failed ? 1 : 0);
    used.push_back(run);
  }
  if (members.empty() || !count_outcomes(all, used).enough()) return chances;
  const LogisticModel model = fit_logistic(features, members.size(), failed);
  for (std::size_t i = 0; i < of.size(); ++i)
    if (const std::vector<double> one = features_of(all, members, of[i]); is_defined(one))
      chances[i] = model.probability(one);
  return chances;
}

std::vector<std::size_t> prompt_folds(std::size_t prompts, std::uint64_t seed) {
  std::vector<std::size_t> fold(prompts);
  for (std::size_t i = 0; i < fold.size(); ++i) fold[i] = i % kFolds;
  std::mt19937_64 random(seed);
  shuffle(fold, random);
  return fold;
}

void add_combinations(OutcomeRuns& all, std::uint64_t seed) {
  const std::vector<std::size_t> fold = prompt_folds(all.prompts.size(), seed);
  for (const Combination& combination : all_combinations()) {
    const std::vector<std::size_t> members = members_of(all, combination);
    const bool has_spans = std::ranges::any_of(members, [&](std::size_t p) { return all.predictors[p].needs_spans; });
    if (members.size() < 2 || has_spans != combination.needs_spans) continue;
    std::vector<double> values(all.runs.size());
    for (std::size_t f = 0; f < kFolds; ++f) {
      std::vector<std::size_t> from, of;
      for (std::size_t r = 0; r < all.runs.size(); ++r) (fold[all.runs[r].prompt] == f ? of : from).push_back(r);
      const std::vector<double> chances = predicted(all, combination, from, of);
      for (std::size_t i = 0; i < of.size(); ++i) values[of[i]] = chances[i];
    }
    all.predictors.push_back({.name = combination.name, .needs_spans = combination.needs_spans});
    for (std::size_t r = 0; r < all.runs.size(); ++r) all.runs[r].values.push_back(values[r]);
  }
}

}  // namespace attest
