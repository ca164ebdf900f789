// The layers and heads of a row that differ most.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "experiments/compare/comparison.h"

namespace attest {

struct ListedHead {
  int layer = 0;
  std::size_t head = 0;
  double mean = 0;  ///< over prompts of the mean over queries of R2 - R1
  std::uint32_t prompts = 0, same_sign = 0;
};

/// The heads with the largest mean difference, at most `maximum`; none whose difference is 0.
std::vector<ListedHead> largest_differences(const Comparison& comparison, const HeadDifferences& heads,
                                            std::size_t maximum);

/// The row whose heads are worth a look: of those that differ, the one with the smallest p. Null if none differs.
const ComparedRow* most_significant_row(const Comparison& comparison);

}  // namespace attest
