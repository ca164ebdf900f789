// Exact tails of the binomial distribution and the intervals that follow from them.
#pragma once

#include <cstdint>

namespace attest {

/// P(Bin(n, p) <= k); 0 <= p <= 1, n >= 0. 0 for k < 0, 1 for k >= n.
double binomial_cdf(std::int64_t k, std::int64_t n, double p);

/// P(Bin(n, p) >= k).
double binomial_upper_tail(std::int64_t k, std::int64_t n, double p);

/// Bounds of the share of which k of n were seen. [0, 1] for n = 0.
struct ShareInterval {
  double low = 0, high = 1;
};

/// Two-sided, of at least this confidence: Clopper and Pearson, Biometrika 26 (1934).
ShareInterval clopper_pearson(std::int64_t k, std::int64_t n, double confidence);

/// The largest share that k of n do not reject: one-sided, of at least this confidence.
double share_upper_bound(std::int64_t k, std::int64_t n, double confidence);

}  // namespace attest
