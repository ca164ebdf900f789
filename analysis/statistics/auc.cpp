// AUC of weighted outcomes by one pass over the sorted scores.
#include "analysis/statistics/auc.h"

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "analysis/statistics/quantile.h"
#include "kernels/base/not_defined.h"

namespace attest {
namespace {

/// Ascending by stratum and score, so that every draw of the bootstrap is one pass.
struct SortedOutcome {
  std::size_t cluster = 0;  ///< 0, 1, ... without gaps
  bool failed = false;
  bool ends_tie = false, ends_stratum = false;
};

struct SortedOutcomes {
  std::vector<SortedOutcome> list;
  std::size_t clusters = 0;
};

SortedOutcomes sorted(std::span<const ScoredOutcome> outcomes) {
  std::vector<const ScoredOutcome*> order;
  for (const ScoredOutcome& outcome : outcomes) order.push_back(&outcome);
  std::ranges::stable_sort(order, [](const ScoredOutcome* a, const ScoredOutcome* b) {
    return a->stratum != b->stratum ? a->stratum < b->stratum : a->score < b->score;
  });
  SortedOutcomes result;
  std::map<std::size_t, std::size_t> numbers;  // in the order of the clusters, whatever the scores are
  for (const ScoredOutcome& outcome : outcomes) numbers[outcome.cluster] = 0;
  for (auto& [cluster, number] : numbers) number = result.clusters++;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const ScoredOutcome* next = i + 1 < order.size() ? order[i + 1] : nullptr;
    const bool last = next == nullptr || next->stratum != order[i]->stratum;
    result.list.push_back({.cluster = numbers[order[i]->cluster],
                           .failed = order[i]->failed,
                           .ends_tie = last || next->score != order[i]->score,
                           .ends_stratum = last});
  }
  return result;
}

/// `copies` of each cluster. Sums are of whole and half numbers and exact.
double weighted_auc(const SortedOutcomes& outcomes, std::span<const std::uint32_t> copies) {
  double won = 0, pairs = 0;
  double below = 0, failures = 0, tied_failures = 0, tied_successes = 0;  // of the stratum, of the tie
  for (const SortedOutcome& outcome : outcomes.list) {
    (outcome.failed ? tied_failures : tied_successes) += copies[outcome.cluster];
    if (!outcome.ends_tie) continue;
    won += tied_failures * (below + tied_successes / 2);
    below += tied_successes;
    failures += tied_failures;
    tied_failures = tied_successes = 0;
    if (!outcome.ends_stratum) continue;
    pairs += failures * below;
    failures = below = 0;
  }
  return pairs > 0 ? won / pairs : kNaN;
}

}  // namespace

double auc_of(std::span<const ScoredOutcome> outcomes) {
  const SortedOutcomes all = sorted(outcomes);
  return weighted_auc(all, std::vector<std::uint32_t>(all.clusters, 1));
}

Auc auc_interval(std::span<const ScoredOutcome> outcomes, const BootstrapOptions& options) {
  const SortedOutcomes all = sorted(outcomes);
  Auc auc{.value = weighted_auc(all, std::vector<std::uint32_t>(all.clusters, 1)), .clusters = all.clusters};
  auc.low = auc.high = kNaN;
  if (!(auc.value >= 0)) return auc;
  std::mt19937_64 random(options.seed);
  std::vector<double> draws;
  std::vector<std::uint32_t> copies(all.clusters);
  for (int r = 0; r < options.resamples; ++r) {
    std::ranges::fill(copies, 0);
    for (std::size_t i = 0; i < all.clusters; ++i) ++copies[random() % all.clusters];
    if (const double value = weighted_auc(all, copies); value >= 0) draws.push_back(value);
  }
  std::ranges::sort(draws);
  const double tail = (1 - options.confidence) / 2;
  auc.low = quantile_of_sorted(draws, tail);
  auc.high = quantile_of_sorted(draws, 1 - tail);
  return auc;
}

}  // namespace attest
