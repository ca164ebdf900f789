// Holm's correction for several tests: with adjusted p-values <= alpha, the chance of any false rejection is <= alpha,
// however the tests depend on each other (S. Holm, A simple sequentially rejective multiple test procedure, 1979).
#pragma once

#include <span>
#include <vector>

namespace attest {

/// Adjusted p-values in the order of `p`: of the i-th smallest of m (from 1) the largest of min(1, (m - j + 1) p_(j)),
/// j = 1 .. i. `p` must be free of NaN.
std::vector<double> holm_adjusted(std::span<const double> p);

}  // namespace attest
