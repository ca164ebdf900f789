// What the query heads of a group decide together.
#pragma once

#include <cstdint>

#include "kernels/level.h"
#include "kernels/row_matrix.h"

namespace attest {

/// Rows [first, first + group) get the least level that any of them has, token by token: what one head keeps is kept by
/// all.
void share_levels(RowMatrix<Level>& levels, int first, int group, std::int64_t count);

}  // namespace attest
