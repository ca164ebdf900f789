// Levels and values shared by the query heads of a group, on the CPU.
#include "kernels/rank/group_policy.h"

#include <algorithm>

namespace attest {
namespace {

/// Sets each entry of the rows to that which `best_of` two leaves of all.
template <class T, class Best>
void take_best(RowMatrix<T>& rows, int first, int group, std::int64_t count, Best best_of) {
  T* best = rows.row(first);
  for (int h = 1; h < group; ++h)
    for (std::int64_t j = 0; j < count; ++j) best[j] = best_of(best[j], rows.row(first + h)[j]);
  for (int h = 1; h < group; ++h) std::copy_n(best, count, rows.row(first + h));
}

}  // namespace

void take_group_minimum(RowMatrix<Level>& levels, int first, int group, std::int64_t count) {
  take_best(levels, first, group, count, [](Level a, Level b) { return std::min(a, b); });
}

void take_group_maximum(RowMatrix<double>& values, int first, int group, std::int64_t count) {
  take_best(values, first, group, count, [](double a, double b) { return std::max(a, b); });
}

}  // namespace attest
