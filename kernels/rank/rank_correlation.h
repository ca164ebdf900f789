// Spearman's and Pearson's correlation of an estimate with the exact scores of one row.
#pragma once

#include <cstdint>
#include <span>

namespace attest {

/// Average ranks of values[0 .. ranks.size()): ascending, 1-based, ties get their mean. `order` is the descending order
/// of a row that may be longer; its entries >= ranks.size() are skipped. A NaN is tied with nothing.
void average_ranks(std::span<const double> values, std::span<const std::uint32_t> order, std::span<double> ranks);

/// Pearson's r; NaN if either input is constant (also: varies by less than 1e-145), or both are empty.
double pearson(std::span<const double> a, std::span<const double> b);

/// Spearman's rho with average ranks; NaN if either input is constant or both are empty. Sorts both.
double spearman(std::span<const double> a, std::span<const double> b);

}  // namespace attest
