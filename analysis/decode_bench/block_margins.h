// What each rule compares with its threshold, from the largest scores of sub-blocks: a sub-block is kept if its margin
// is at most delta, so that a budget keeps those with the lowest margins.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace attest {

/// maxima [pairs * group, sub_blocks] of the sub-blocks of full blocks; `per_block` of them make a block of 128 tokens.
struct HeadMaxima {
  std::span<const double> maxima;
  std::int64_t pairs = 0, sub_blocks = 0;
  int group = 1, per_block = 1;
};

/// All return [pairs, sub_blocks], for the union over the group's heads.

/// m~ - max s^ with m~ from the first and the last full block (kernels/selectors/ffd.cpp); the least of the group.
std::vector<double> topdelta_margins(const HeadMaxima& heads);

/// Minus the largest score of the group's heads.
std::vector<double> topk_margins(const HeadMaxima& heads);

/// Of skip_softmax, whose tiles are the sub-blocks (kernels/selectors/skip_softmax.cpp): the largest of the earlier
/// tiles of its sub-sequence minus its own; the least of the group. The first of a sub-sequence: minus infinity.
std::vector<double> skip_margins(const HeadMaxima& heads, int splits);

/// Of top-p, from masses instead of maxima: the mass of the sub-blocks with more mass in its row, the least of the
/// group; ties go to the lower index. A sub-block is kept if its margin is below p.
std::vector<double> topp_margins(const HeadMaxima& masses);

}  // namespace attest
