// A second, plain implementation of the building blocks of the selectors' formulas: simple loops that use no helper of
// the program.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "kernels/base/kv_head.h"

namespace attest::test {

using Row = std::vector<double>;
using Kept = std::vector<char>;  // [L] 1: the token is kept

/// Rounds x to a binary format with `digits` significant bits and subnormals that are multiples of 2^least. Ties go to
/// even; magnitudes above `largest` saturate.
inline double rounded_to(double x, int digits, int minimum, double largest) {
  if (x == 0) return x;
  int exponent = 0;
  std::frexp(x, &exponent);
  const double unit = std::ldexp(1.0, std::max(exponent - digits, minimum));
  return std::clamp(std::nearbyint(x / unit) * unit, -largest, largest);
}

inline double to_e4m3(double x) { return rounded_to(x, 4, -9, 448); }

inline double to_type(ElementType type, double x) {
  switch (type) {
    case ElementType::float16:
      return rounded_to(x, 11, -24, 65504);
    case ElementType::bfloat16:
      return rounded_to(x, 8, -133, std::numeric_limits<double>::max());
    case ElementType::float32:
      break;
  }
  return rounded_to(x, 24, -149, std::numeric_limits<double>::max());
}

/// Rounds one operation to float32. For float operands, rounding the double result of one + - * / gives the correctly
/// rounded float32 result.
inline double f32(double x) { return static_cast<double>(static_cast<float>(x)); }

inline double half_even(double x) { return std::nearbyint(x); }

/// One query position with the query heads of one KV head, in the terms of the formulas.
struct Query {
  const KvHead* head;
  int n;

  std::int64_t length() const { return head->visible[static_cast<std::size_t>(n)]; }
  int group() const { return head->group; }
  int dim() const { return head->head_dim; }
  int value_dim() const { return head->value_dim; }
  double q(int h, int d) const {
    return head->queries[(static_cast<std::int64_t>(n) * head->group + h) * head->head_dim + d];
  }
  double k(std::int64_t j, int d) const { return head->keys[j * head->head_dim + d]; }
  double v(std::int64_t j, int d) const { return head->values[j * head->value_dim + d]; }

  /// scale * dot, soft-capped.
  double score_of(double dot) const {
    const double s = head->transform.scale * dot, c = head->transform.softcap;
    return c > 0 ? c * std::tanh(s / c) : s;
  }
  double exact(int h, std::int64_t j) const {
    double dot = 0;
    for (int d = 0; d < dim(); ++d) dot += q(h, d) * k(j, d);
    return score_of(dot);
  }
  Row exact_row(int h) const {
    Row s;
    for (std::int64_t j = 0; j < length(); ++j) s.push_back(exact(h, j));
    return s;
  }
  /// Scores with `keys` [L or fewer][D] in place of k.
  Row scores_of(int h, const std::vector<Row>& keys) const {
    Row s;
    for (const Row& key : keys) {
      double dot = 0;
      for (int d = 0; d < dim(); ++d) dot += q(h, d) * key[static_cast<std::size_t>(d)];
      s.push_back(score_of(dot));
    }
    return s;
  }
};

/// Indices by descending value; ties by ascending index.
inline std::vector<std::size_t> descending(const Row& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return values[a] > values[b]; });
  return order;
}

/// The n largest values.
inline Kept best_n(const Row& values, double n) {
  Kept kept(values.size(), 0);
  const std::vector<std::size_t> order = descending(values);
  for (std::size_t i = 0; i < order.size() && static_cast<double>(i) < n; ++i) kept[order[i]] = 1;
  return kept;
}

inline Row softmax(const Row& scores) {
  const double max = *std::max_element(scores.begin(), scores.end());
  Row w;
  double sum = 0;
  for (double s : scores) w.push_back(std::exp(s - max)), sum += w.back();
  for (double& x : w) x /= sum;
  return w;
}

/// The smallest set of items, taken by descending mass, whose sum reaches p. Only `allowed` items are considered.
inline Kept smallest_share(const Row& mass, double p, const Kept& allowed) {
  Kept kept(mass.size(), 0);
  double sum = 0;
  for (std::size_t i : descending(mass)) {
    if (!allowed[i]) continue;
    kept[i] = 1;
    sum += mass[i];
    if (sum >= p - 1e-6) break;
  }
  return kept;
}

/// The largest value of each block of `block` consecutive tokens; the last block may be partial.
inline Row block_max(const Row& values, std::size_t block) {
  Row best;
  for (std::size_t j = 0; j < values.size(); ++j)
    if (j % block == 0)
      best.push_back(values[j]);
    else
      best.back() = std::max(best.back(), values[j]);
  return best;
}

inline Row block_sum(const Row& values, std::size_t block) {
  Row sum;
  for (std::size_t j = 0; j < values.size(); ++j)
    if (j % block == 0)
      sum.push_back(values[j]);
    else
      sum.back() += values[j];
  return sum;
}

/// The tokens of the kept blocks.
inline Kept tokens_of(const Kept& items, std::size_t block, std::int64_t length) {
  Kept kept(static_cast<std::size_t>(length), 0);
  for (std::size_t j = 0; j < kept.size(); ++j) kept[j] = j / block < items.size() ? items[j / block] : 0;
  return kept;
}

inline Kept either(const Kept& a, const Kept& b) {
  Kept kept(a.size());
  for (std::size_t j = 0; j < a.size(); ++j) kept[j] = a[j] || b[j];
  return kept;
}

inline double count(const Kept& kept) { return static_cast<double>(std::count(kept.begin(), kept.end(), 1)); }

/// Rank = 1 + number of smaller values + half the number of other equal values.
inline Row plain_ranks(const Row& values) {
  Row ranks;
  for (double x : values) {
    double smaller = 0, equal = 0;
    for (double y : values) smaller += y < x, equal += y == x;
    ranks.push_back(1 + smaller + (equal - 1) / 2);
  }
  return ranks;
}

}  // namespace attest::test
