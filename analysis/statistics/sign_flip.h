// The sign-flip test of paired differences, and the interval of their mean that its inversion gives.
//
// If nothing changed, each difference was as likely to have the other sign. The two-sided p-value is the share of all
// 2^n sign vectors (R. A. Fisher, The Design of Experiments, 1935, section 21) whose sum is at least as far from 0 as
// the observed one. Shifted by theta, the test rejects by the means of subsets: the one-sided p-value is the share of
// subsets, the empty one included, whose mean difference is <= theta (J. A. Hartigan, Using subsample values as typical
// values, 1969). The ends of the interval are therefore order statistics of the subsets' means. For many differences
// random sign vectors stand for all of them, with the observed one among them, so that the level holds
// (B. Phipson and G. K. Smyth, Permutation p-values should never be zero, 2010).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace attest {

/// Up to so many differences all sign vectors are counted.
inline constexpr std::size_t kMaxExactFlips = 20;

struct SignFlipOptions {
  double confidence = 0.95;     ///< of the interval, in (0, 1)
  std::size_t draws = 100'000;  ///< sign vectors for more than kMaxExactFlips differences
  std::uint64_t seed = 0;       ///< of the draws; the same for all rows with as many differences
};

struct SignFlipResult {
  double mean = 0;
  /// Two-sided; 1 without differences, or if their sum is 0. Sums that differ by less than the rounding of n terms,
  /// 4 n 2^-52 sum |d|, are equal; ties count against a change.
  double p = 1;
  /// Contains 0 exactly if p > 1 - confidence. Infinite if too few differences bound it.
  double low = 0, high = 0;
};

/// `differences` must be finite. The same on every machine.
SignFlipResult sign_flip_test(std::span<const double> differences, const SignFlipOptions& options = {});

/// The smallest p-value that so many differences can have: 2 / 2^n, but 1 / (1 + draws) if they are drawn.
double smallest_sign_flip_p(std::size_t differences, const SignFlipOptions& options = {});

}  // namespace attest
