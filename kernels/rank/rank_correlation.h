// Spearman's and Pearson's correlation of an estimate with the exact scores of one row.
#pragma once

#include <cstdint>
#include <span>

namespace attest {

/// Average ranks (1-based; ties share their mean) of values[0 .. ranks.size()), given the descending order of a row
/// that may be longer: entries of `order` that are not below ranks.size() are passed over.
void average_ranks(std::span<const double> values, std::span<const std::uint32_t> order, std::span<double> ranks);

/// Pearson's r; NaN if either is constant or both are empty.
double pearson(std::span<const double> a, std::span<const double> b);

/// Spearman's rho with average ranks; NaN if either is constant or both are empty. Sorts both.
double spearman(std::span<const double> a, std::span<const double> b);

}  // namespace attest
