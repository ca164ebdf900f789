// Stable descending sort of scores, used by rank correlation, top-k and top-p.
#pragma once

#include <cstdint>
#include <span>

namespace attest {

/// order[i] = index of the i-th largest value. Equal values (including +0 and -0) are in ascending order of index.
/// values.size() < 2^32. NaNs come before all numbers or after them, depending on their sign.
void sort_descending(std::span<const double> values, std::span<std::uint32_t> order);

}  // namespace attest
