// Entry levels from scores or masses, for the three families of rules (top-delta, top-k, top-p). Each function handles
// a whole grid of settings at once.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/base/level.h"

namespace attest {

/// levels[i] = first g with values[i] >= thresholds[g], the number of thresholds if none. thresholds descending (they
/// correspond to ascending deltas).
void threshold_levels(std::span<const double> values, std::span<const double> thresholds, std::span<Level> levels);

/// levels[i] = first g such that i is among the counts[g] largest values, the number of counts if none. Ties: lower
/// index first. counts ascending.
void top_n_levels(std::span<const double> values, std::span<const std::int64_t> counts, std::span<Level> levels);

/// The same if the descending order is known: order[k] is the item with the k-th largest value. levels of items that
/// are not in `order` are not changed.
void top_n_levels_of(std::span<const std::uint32_t> order, std::span<const std::int64_t> counts,
                     std::span<Level> levels);

/// levels[i] = first g such that set g contains i, the number of shares if none. Set g is the shortest prefix of the
/// items in descending mass (ties: lower index first) whose share of the total mass reaches shares[g], within
/// kShareTolerance. It contains at least one item. shares ascending.
void top_p_levels(std::span<const double> mass, std::span<const double> shares, std::span<Level> levels);

/// The same if the descending order is known. Only the items in `order` count towards the total and get a level.
void top_p_levels_of(std::span<const double> mass, std::span<const std::uint32_t> order, std::span<const double> shares,
                     std::span<Level> levels);

}  // namespace attest
