// From scores or masses to entry levels: the three families of rules (top-delta, top-k, top-p), each over a whole grid
// at once.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/level.h"

namespace attest {

/// levels[i] = first g with values[i] >= thresholds[g] (descending thresholds: an ascending grid of deltas); G if none.
void threshold_levels(std::span<const double> values, std::span<const double> thresholds, std::span<Level> levels);

/// levels[i] = first g whose counts[g] best items include i; items in descending value, ties to the lower index. counts
/// ascending.
void top_n_levels(std::span<const double> values, std::span<const std::int64_t> counts, std::span<Level> levels);

/// The same for items whose descending order is known: order[k] is the k-th best. levels of items not in `order` stay
/// untouched.
void top_n_levels_of(std::span<const std::uint32_t> order, std::span<const std::int64_t> counts,
                     std::span<Level> levels);

/// levels[i] = first g for which i is in the smallest set of descending mass (ties to the lower index) whose share of
/// the total reaches shares[g], within kShareTolerance; at least one item is kept. shares ascending.
void top_p_levels(std::span<const double> mass, std::span<const double> shares, std::span<Level> levels);

/// The same for items whose descending order is known: only the items of `order` count and get a level.
void top_p_levels_of(std::span<const double> mass, std::span<const std::uint32_t> order, std::span<const double> shares,
                     std::span<Level> levels);

}  // namespace attest
