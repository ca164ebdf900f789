// Rows of values that are hard to rank, and their plain order and ranks.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "tests/cases.h"

namespace attest::test {

struct ValueKind {
  const char* name;
  float (*value)(std::size_t i, Random& random);
};

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
inline float normal(Random& random) { return static_cast<float>(random.normal()); }

inline const ValueKind kValueKinds[] = {
    {"normal", [](std::size_t, Random& random) { return normal(random); }},
    {"far_outliers",
     [](std::size_t, Random& random) { return (random.below(900) == 0 ? 1e6f : 1.0f) * normal(random); }},
    {"heavy_tail", [](std::size_t, Random& random) { return std::exp(8 * normal(random)); }},
    {"two_lumps",
     [](std::size_t, Random& random) { return (random.below(2) == 0 ? -100.0f : 100.0f) + 1e-3f * normal(random); }},
    {"ties", [](std::size_t, Random& random) { return static_cast<float>(random.below(7) - 3); }},
    {"mostly_one_value", [](std::size_t, Random& random) { return random.below(50) == 0 ? normal(random) : 0.25f; }},
    {"constant", [](std::size_t, Random&) { return 3.5f; }},
    {"signed_zeros",
     [](std::size_t, Random& random) {
       const std::int64_t which = random.below(3);
       return which == 0 ? 0.0f : which == 1 ? -0.0f : normal(random);
     }},
    {"huge", [](std::size_t, Random& random) { return 3e38f * std::tanh(normal(random)); }},
    {"tiny", [](std::size_t, Random& random) { return 1e-44f * static_cast<float>(random.below(100)); }},
    {"ascending", [](std::size_t i, Random&) { return static_cast<float>(i); }},
    {"descending", [](std::size_t i, Random&) { return -static_cast<float>(i); }},
    {"some_minus_infinity",
     [](std::size_t, Random& random) { return random.below(4) == 0 ? -kInfinity : normal(random); }},
    {"both_infinities",
     [](std::size_t, Random& random) {
       const std::int64_t which = random.below(30);
       return which == 0 ? kInfinity : which == 1 ? -kInfinity : normal(random);
     }},
    {"all_minus_infinity", [](std::size_t, Random&) { return -kInfinity; }},
};

inline std::vector<float> values_of(const ValueKind& kind, std::size_t count, Random& random) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = kind.value(i, random);
  return values;
}

/// Items by descending value; ties by ascending item.
template <class T>
std::vector<std::uint32_t> plain_order(const std::vector<T>& values) {
  std::vector<std::uint32_t> order(values.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) { return values[a] > values[b]; });
  return order;
}

/// Centred ranks 2 rank - (n + 1), where rank = number of larger items + (number of equal items + 1) / 2.
template <class T>
std::vector<int> plain_centred_ranks(const std::vector<T>& values) {
  std::vector<T> sorted = values;
  std::sort(sorted.begin(), sorted.end());
  std::vector<int> centred;
  for (T x : values) {
    const auto larger = sorted.end() - std::upper_bound(sorted.begin(), sorted.end(), x),
               smaller = std::lower_bound(sorted.begin(), sorted.end(), x) - sorted.begin();
    const auto n = static_cast<std::ptrdiff_t>(sorted.size()), equal = n - larger - smaller;
    centred.push_back(static_cast<int>(2 * larger + equal - n));
  }
  return centred;
}

/// Spearman's rho from two sets of centred ranks, rounded to float32; NaN where either is constant.
inline float plain_rho(const std::vector<int>& a, const std::vector<int>& b) {
  std::int64_t ab = 0, aa = 0, bb = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    ab += std::int64_t{a[i]} * b[i];
    aa += std::int64_t{a[i]} * a[i];
    bb += std::int64_t{b[i]} * b[i];
  }
  if (aa == 0 || bb == 0) return std::numeric_limits<float>::quiet_NaN();
  return static_cast<float>(static_cast<double>(ab) /
                            (std::sqrt(static_cast<double>(aa)) * std::sqrt(static_cast<double>(bb))));
}

}  // namespace attest::test
