// Average ranks with ties, Pearson's and Spearman's correlation.
#include "kernels/rank/rank_correlation.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/base/lane_sum.h"
#include "kernels/base/not_defined.h"
#include "kernels/rank/sort_descending.h"

namespace attest {

namespace {

constexpr std::size_t kAtOnce = 256;

/// average_ranks() of an order that lists covered items alone. Values lie anywhere in memory: a stretch of them is
/// gathered first, so that their loads are in flight together. As a rule it has no ties.
void ranks_of_covered(std::span<const double> values, std::span<const std::uint32_t> order, std::span<double> ranks) {
  const std::size_t n = order.size();
  double sorted[kAtOnce + 1];
  for (std::size_t i = 0; i < n;) {
    const std::size_t stop = std::min(n, i + kAtOnce), looked_at = std::min(n, stop + 1) - i;
    for (std::size_t k = 0; k < looked_at; ++k) sorted[k] = values[order[i + k]];
    int ties = 0;
    for (std::size_t k = 1; k < looked_at; ++k) ties |= sorted[k] == sorted[k - 1] ? 1 : 0;
    for (; ties == 0 && i < stop; ++i) ranks[order[i]] = static_cast<double>(n - i);
    while (i < stop) {
      const double value = values[order[i]];
      std::size_t end = i + 1;
      while (end < n && values[order[end]] == value) ++end;
      const double ascending = static_cast<double>(n - i) - static_cast<double>(end - i - 1) / 2;
      for (; i < end; ++i) ranks[order[i]] = ascending;
    }
  }
}

}  // namespace

void average_ranks(std::span<const double> values, std::span<const std::uint32_t> order, std::span<double> ranks) {
  const std::size_t covered = ranks.size();
  if (order.size() == covered) return ranks_of_covered(values, order, ranks);
  std::size_t rank = 0;  // number of entries ranked so far
  for (std::size_t i = 0; i < order.size();) {
    if (order[i] >= covered) {
      ++i;
      continue;
    }
    const double value = values[order[i]];
    std::size_t tied = 1, end = i + 1;  // the value itself, which a NaN does not equal
    for (; end < order.size() && (order[end] >= covered || values[order[end]] == value); ++end)
      tied += order[end] < covered;
    const double ascending = static_cast<double>(covered - rank) - static_cast<double>(tied - 1) / 2;
    for (; i < end; ++i)
      if (order[i] < covered) ranks[order[i]] = ascending;
    rank += tied;
  }
}

double pearson(std::span<const double> a, std::span<const double> b) {
  // Below it, squares are rounded to multiples of the least double, and r may be anything.
  constexpr double kLeastSquares = 1e-290;
  if (a.empty()) return kNaN;
  const std::size_t n = a.size();
  const auto constant = [n](std::span<const double> x) {
    for (std::size_t i = 1; i < n; ++i)
      if (x[i] != x[0]) return false;
    return true;
  };
  if (constant(a) || constant(b)) return kNaN;
  const double mean_a = lane_sum(n, [&](std::size_t i) { return a[i]; }) / static_cast<double>(n);
  const double mean_b = lane_sum(n, [&](std::size_t i) { return b[i]; }) / static_cast<double>(n);
  const double xx = lane_sum(n, [&](std::size_t i) { return (a[i] - mean_a) * (a[i] - mean_a); });
  const double yy = lane_sum(n, [&](std::size_t i) { return (b[i] - mean_b) * (b[i] - mean_b); });
  if (xx < kLeastSquares || yy < kLeastSquares) return kNaN;
  const double xy = lane_sum(n, [&](std::size_t i) { return (a[i] - mean_a) * (b[i] - mean_b); });
  return xy / (std::sqrt(xx) * std::sqrt(yy));
}

double spearman(std::span<const double> a, std::span<const double> b) {
  const auto ranks_of = [](std::span<const double> values) {
    std::vector<std::uint32_t> order(values.size());
    std::vector<double> ranks(values.size());
    sort_descending(values, order);
    average_ranks(values, order, ranks);
    return ranks;
  };
  return pearson(ranks_of(a), ranks_of(b));
}

}  // namespace attest
