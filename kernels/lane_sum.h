// Sums in eight lanes: vectorised, and bit for bit the same wherever the data lies in memory.
#pragma once

#include <cstddef>

namespace attest {

/// term(0) + ... + term(n - 1), element i in lane i mod 8, the lanes added pairwise. (Libraries that peel to an aligned
/// address would give sums that depend on the allocator.)
template <class Term>
inline double lane_sum(std::size_t n, Term&& term) {
  double lane[8] = {};
  std::size_t i = 0;
  for (; i + 8 <= n; i += 8)
    for (std::size_t l = 0; l < 8; ++l) lane[l] += term(i + l);
  for (std::size_t l = 0; i + l < n; ++l) lane[l] += term(i + l);
  return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

/// The largest term; `start` where n = 0.
template <class Term>
inline double lane_max(std::size_t n, double start, Term&& term) {
  double lane[8] = {start, start, start, start, start, start, start, start};
  std::size_t i = 0;
  for (; i + 8 <= n; i += 8)
    for (std::size_t l = 0; l < 8; ++l) lane[l] = term(i + l) > lane[l] ? term(i + l) : lane[l];
  for (std::size_t l = 0; i + l < n; ++l) lane[l] = term(i + l) > lane[l] ? term(i + l) : lane[l];
  double best = start;
  for (double x : lane) best = x > best ? x : best;
  return best;
}

}  // namespace attest
