// Statistics of a row of exact scores, on the CPU.
#include "analysis/metrics/score_statistics.h"

#include <cmath>

#include "kernels/base/lane_sum.h"
#include "kernels/base/not_defined.h"

namespace attest {

double lse(const ExactRow& row) { return row.lse; }

double top1_top2_gap(const ExactRow& row) {
  if (row.order.size() < 2) return kNaN;
  return row.scores[row.order[0]] - row.scores[row.order[1]];
}

double score_std(const ExactRow& row) {
  const auto n = row.scores.size();
  const double mean = lane_sum(n, [&](std::size_t j) { return row.scores[j]; }) / static_cast<double>(n);
  const double squares = lane_sum(n, [&](std::size_t j) { return (row.scores[j] - mean) * (row.scores[j] - mean); });
  return std::sqrt(squares / static_cast<double>(n));
}

double entropy(const ExactRow& row) {
  // -sum p log p with log p = s - LSE over the keys
  return lane_sum(row.scores.size(),
                  [&](std::size_t j) { return row.probabilities[j] * (row.keys_lse - row.scores[j]); });
}

double span_mass(const ExactRow& row) {
  if (row.span_tokens.empty()) return kNaN;
  double mass = 0;
  for (std::uint32_t j : row.span_tokens) mass += row.probabilities[j];
  return mass;
}

double sink_mass(const ExactRow& row) { return row.sink ? std::exp(*row.sink - row.lse) : kNaN; }

}  // namespace attest
