// Levels shared by the query heads of a group, on the CPU.
#include "kernels/rank/group_policy.h"

#include <algorithm>

namespace attest {

void take_group_minimum(RowMatrix<Level>& levels, int first, int group, std::int64_t count) {
  Level* least = levels.row(first);
  for (int h = 1; h < group; ++h)
    for (std::int64_t j = 0; j < count; ++j) least[j] = std::min(least[j], levels.row(first + h)[j]);
  for (int h = 1; h < group; ++h) std::copy_n(least, count, levels.row(first + h));
}

}  // namespace attest
