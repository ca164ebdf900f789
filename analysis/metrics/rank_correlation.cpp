// Rank correlation over tokens and over block maxima, on the CPU.
#include "analysis/metrics/rank_correlation.h"

#include "kernels/base/lane_sum.h"
#include "kernels/base/not_defined.h"
#include "kernels/rank/rank_correlation.h"

namespace attest {
namespace {

std::vector<double> block_maxima(std::span<const double> scores, std::size_t block) {
  std::vector<double> maxima(scores.size() / block);
  for (std::size_t b = 0; b < maxima.size(); ++b)
    maxima[b] = lane_max(block, scores[b * block], [&](std::size_t t) { return scores[b * block + t]; });
  return maxima;
}

double spearman_of_blocks(const SelectorRow& row, std::size_t block) {
  const std::size_t covered = row.estimate.size();
  if (covered / block < 2) return kNaN;
  return spearman(block_maxima(row.estimate, block), block_maxima(row.exact->scores.first(covered), block));
}

}  // namespace

void spearman_of_row(const SelectorRow& row, std::span<double> out) {
  const std::size_t covered = row.estimate.size();
  static thread_local std::vector<double> exact_ranks, estimate_ranks;
  exact_ranks.resize(covered);
  estimate_ranks.resize(covered);
  average_ranks(row.exact->scores, row.exact->order, exact_ranks);
  average_ranks(row.estimate, row.estimate_order, estimate_ranks);
  out[0] = pearson(exact_ranks, estimate_ranks);
}

void pearson_of_row(const SelectorRow& row, std::span<double> out) {
  out[0] = pearson(row.estimate, row.exact->scores.first(row.estimate.size()));
}

void spearman_block16(const SelectorRow& row, std::span<double> out) { out[0] = spearman_of_blocks(row, 16); }
void spearman_block128(const SelectorRow& row, std::span<double> out) { out[0] = spearman_of_blocks(row, 128); }

}  // namespace attest
