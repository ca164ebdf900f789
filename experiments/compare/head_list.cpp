// Sorts heads by the size of their difference.
#include "experiments/compare/head_list.h"

#include <algorithm>
#include <cmath>

namespace attest {

std::vector<ListedHead> largest_differences(const Comparison& comparison, const HeadDifferences& heads,
                                            std::size_t maximum) {
  std::vector<ListedHead> listed;
  for (std::size_t i = 0; i < heads.mean.size(); ++i)
    if (std::abs(heads.mean[i]) > 0)  // not NaN
      listed.push_back(
          {comparison.layers[i / heads.heads], i % heads.heads, heads.mean[i], heads.prompts[i], heads.same_sign[i]});
  std::ranges::stable_sort(listed, std::ranges::greater(), [](const ListedHead& head) { return std::abs(head.mean); });
  listed.resize(std::min(listed.size(), maximum));
  return listed;
}

const ComparedRow* most_significant_row(const Comparison& comparison) {
  const ComparedRow* found = nullptr;
  for (const ComparedRow& row : comparison.rows)
    if (!row.equal && (found == nullptr || row.test.p < found->test.p)) found = &row;
  return found;
}

}  // namespace attest
