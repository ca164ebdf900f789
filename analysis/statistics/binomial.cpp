// Binomial tails by summing from the largest term outwards.
#include "analysis/statistics/binomial.h"

#include <algorithm>
#include <cmath>

namespace attest {
namespace {

double log_probability(std::int64_t k, std::int64_t n, double p) {
  const auto x = static_cast<double>(k), all = static_cast<double>(n);
  const double choose = std::lgamma(all + 1) - std::lgamma(x + 1) - std::lgamma(all - x + 1);
  return choose + (k > 0 ? x * std::log(p) : 0) + (k < n ? (all - x) * std::log1p(-p) : 0);
}

/// P(Bin(n, p) = k) + P(= k-1) + ..., whose terms must fall: k <= n p.
double falling_sum(std::int64_t k, std::int64_t n, double p) {
  double term = std::exp(log_probability(k, n, p)), sum = term;
  for (; k > 0 && term > sum * 1e-18; --k) {
    term *= static_cast<double>(k) / static_cast<double>(n - k + 1) * ((1 - p) / p);
    sum += term;
  }
  return std::min(sum, 1.0);
}

/// The share at which `tail`, which rises with it, reaches `level`.
template <class Tail>
double share_at(double level, Tail tail) {
  double low = 0, high = 1;
  while (high - low > 1e-15 * (1 + low)) {
    const double middle = low + (high - low) / 2;
    if (middle <= low || middle >= high) break;
    (tail(middle) < level ? low : high) = middle;
  }
  return high;
}

}  // namespace

double binomial_cdf(std::int64_t k, std::int64_t n, double p) {
  if (k < 0) return 0;
  if (k >= n || p <= 0) return 1;
  if (p >= 1) return 0;
  if (static_cast<double>(k) <= static_cast<double>(n) * p) return falling_sum(k, n, p);
  return 1 - falling_sum(n - k - 1, n, 1 - p);
}

double binomial_upper_tail(std::int64_t k, std::int64_t n, double p) { return binomial_cdf(n - k, n, 1 - p); }

ShareInterval clopper_pearson(std::int64_t k, std::int64_t n, double confidence) {
  const double tail = (1 - confidence) / 2;
  ShareInterval interval;
  if (n > 0 && k > 0) interval.low = share_at(tail, [&](double p) { return binomial_upper_tail(k, n, p); });
  if (n > 0 && k < n) interval.high = share_upper_bound(k, n, 1 - tail);
  return interval;
}

double share_upper_bound(std::int64_t k, std::int64_t n, double confidence) {
  if (n == 0 || k >= n) return 1;
  return share_at(confidence, [&](double p) { return 1 - binomial_cdf(k, n, p); });
}

}  // namespace attest
