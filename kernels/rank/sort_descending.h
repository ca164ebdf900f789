// Stable descending sort of scores: the order behind rank correlation, top-k and top-p.
#pragma once

#include <cstdint>
#include <span>

namespace attest {

/// order[i] = index of the i-th largest value; equal values (and +0, -0) stand in ascending index. values.size() <
/// 2^32, no NaN.
void sort_descending(std::span<const double> values, std::span<std::uint32_t> order);

}  // namespace attest
