// Quantiles by linear interpolation between order statistics (type 7 of Hyndman and Fan, the default of NumPy).
#pragma once

#include <span>
#include <vector>

namespace attest {

/// `sorted` must be ascending and free of NaN; `p` in [0, 1]. NaN if `sorted` is empty.
double quantile_of_sorted(std::span<const double> sorted, double p);

/// NaN values are left out. NaN if no value is left.
double quantile(std::vector<double> values, double p);

}  // namespace attest
