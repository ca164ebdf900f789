// Levels shared by the query heads of a group, on the CPU.
#include "kernels/rank/group_policy.h"

#include <algorithm>

namespace attest {

void take_group_minimum(RowMatrix<Level>& levels, int first, int group, std::int64_t count) {
  Level* minimum = levels.row(first);
  for (int h = 1; h < group; ++h)
    for (std::int64_t j = 0; j < count; ++j) minimum[j] = std::min(minimum[j], levels.row(first + h)[j]);
  for (int h = 1; h < group; ++h) std::copy_n(minimum, count, levels.row(first + h));
}

}  // namespace attest
