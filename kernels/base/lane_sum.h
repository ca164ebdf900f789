// Sums and maxima in eight lanes: vectorised, and bitwise independent of the alignment of the data.
#pragma once

#include <cstddef>

namespace attest {

/// The sum of eight lanes, an array or a vector. Every sum that must have the same bits adds its lanes in this order.
template <class Lanes>
inline double sum_of_lanes(const Lanes& lane) {
  return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

/// term(0) + ... + term(n - 1). Element i is added to lane i mod 8; the lanes are then added pairwise. (Libraries that
/// peel the loop to an aligned address give sums that depend on the allocator.)
template <class Term>
inline double lane_sum(std::size_t n, Term&& term) {
  double lane[8] = {};
  std::size_t i = 0;
  for (; i + 8 <= n; i += 8)
    for (std::size_t l = 0; l < 8; ++l) lane[l] += term(i + l);
  for (std::size_t l = 0; i + l < n; ++l) lane[l] += term(i + l);
  return sum_of_lanes(lane);
}

/// The largest of `start` and the n terms, by lanes as in lane_sum().
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
